"""List the benchmarks: each file's first docstring line and the command that runs it."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Print one block a benchmark, in order of name; a file whose name begins with an underscore is a helper."""
    for path in sorted((ROOT / "benchmarks").rglob("[!_]*.py")):
        doc = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "(no docstring)"
        print(f"{doc.splitlines()[0]}\n    .venv/bin/python {path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
