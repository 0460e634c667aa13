"""Settings from a `.env` file: keys, addresses and the model's name, as tutorials keep them.

OPENAI_API_KEY=sk-…
OPENAI_API_BASE=http://localhost:8080/v1
MODEL_NAME=gpt-4o-mini
"""

from __future__ import annotations

import os
from pathlib import Path

from novelo.errors import InvalidSpec


def load_environment(path: str | Path | None = None) -> Path | None:
    """Put the variables of a `.env` file into the environment. What is set there already wins.

    Args:
        path: the file; None looks for `.env` in the working folder and the folders above it.
    Returns:
        The file that was read; None if there is none.
    Raises:
        InvalidSpec: a file that was named is not there, or it is no text.
    """
    import dotenv  # only when a file is looked for

    if path is not None and not Path(path).is_file():
        raise InvalidSpec(f"environment file {str(path)!r}: there is no such file")
    found = str(path) if path is not None else dotenv.find_dotenv(usecwd=True)
    if not found:
        return None
    try:
        dotenv.load_dotenv(found, override=False)
    except UnicodeDecodeError as error:
        raise InvalidSpec(f"environment file {found!r}: not UTF-8 text") from error
    return Path(found)


def setting(*names: str) -> str | None:
    """The first of these environment variables that says something; None if none does."""
    return next((value for name in names if (value := os.environ.get(name, "").strip())), None)
