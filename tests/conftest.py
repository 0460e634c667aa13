"""What every test gets: a quiet environment, no way out to the network, and the fixtures of all `fix_*.py` files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import pytest

TESTS = Path(__file__).resolve().parent
SHARED = TESTS.parent.parent / "shared"
LOOPBACK = ("127.", "::1", "localhost", "0.0.0.0")
# What a developer may have set for real work, and what must not reach a test.
LEAKING = (
    "OPENAI_",
    "ANTHROPIC_",
    "AZURE_",
    "GOOGLE_",
    "GEMINI_",
    "MISTRAL_",
    "LANGCHAIN_",
    "LANGSMITH_",
    "NOVELO_",
    "XDG_",
)
LEAKING_NAMES = ("MODEL_NAME", "DATABASE_URL", "NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE")

# Fixtures live in files by topic; adding one needs no change here.
pytest_plugins = sorted(path.stem for path in TESTS.glob("fix_*.py"))

# Time limits are pytest's business; a shared machine is slow now and then. HYPOTHESIS_PROFILE=thorough is for a night.
# Where CI is set, a change is judged by the same examples each time (Hypothesis's own habit); elsewhere by new ones.
SAME = {"derandomize": True, "database": None} if os.environ.get("CI") else {}
hypothesis.settings.register_profile("novelo", deadline=None, print_blob=True, **SAME)
hypothesis.settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=2000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "novelo"))


def _refuse_outside(event: str, args: tuple[object, ...]) -> None:
    """Stop a test that would ask a real provider: sockets may only reach this machine."""
    if event == "socket.connect" and isinstance(args[1], tuple) and not str(args[1][0]).startswith(LOOPBACK):
        raise RuntimeError(f"a test tried to reach {args[1][0]!r}; tests use fakes and loopback only")
    if event == "socket.getaddrinfo" and args[0] and not str(args[0]).startswith(LOOPBACK):
        raise RuntimeError(f"a test tried to look up {args[0]!r}; tests use fakes and loopback only")


sys.addaudithook(_refuse_outside)


LONG_FORM = os.environ.get("NOVELO_TEST_LONG", "") not in ("", "0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the long form a test's own time limit, meant for the short one, gives way to an hour."""
    for item in items if LONG_FORM else ():
        item.add_marker(pytest.mark.timeout(3600), append=False)


@pytest.fixture(scope="session", autouse=True)
def _quiet_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Take keys, model names and personal settings out of the environment, and give user data a folder of its own."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if (name.startswith(LEAKING) and name != "NOVELO_TEST_LONG") or name in LEAKING_NAMES:
                patch.delenv(name)
        home = tmp_path_factory.mktemp("home")
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
            patch.setenv(name, str(home / name.lower()))
        patch.setenv("LANGSMITH_TRACING", "false")
        yield


@pytest.fixture(scope="session")
def long_form() -> bool:
    """Whether tests that repeat faults run their long form (`make faults-long`); else the short one of every run."""
    return LONG_FORM


@pytest.fixture(scope="session")
def shared() -> Path:
    """The material folder beside the repository; a test that asks for it is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("needs ../shared, which is not here")
    return SHARED
