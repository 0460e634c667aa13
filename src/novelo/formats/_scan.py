"""JSON from files of unknown origin: size and depth are looked at before it is parsed, faults are told by line."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import msgspec

from novelo.errors import ImportFailed
from novelo.messages import MAX_DEPTH

MAX_BYTES = 1 << 30
WRAPPED = 4  # levels that a file may have around a message, which may itself be 64 deep
_MAX_DIGITS = 4300  # of a whole number; Python refuses longer ones
_SQLITE = b"SQLite format 3\0"
_BOM = b"\xef\xbb\xbf"
_STRING = re.compile(
    rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL
)  # an open one runs to the end, so no byte is read twice
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def checked(data: bytes, name: str, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes without a byte order mark, if they are few enough and not nested too deep.

    Raises:
        ImportFailed: nothing there, a database, more than `max_bytes` bytes, or deeper than a message and what may be
            around it.
    """
    if len(data) > max_bytes:
        raise ImportFailed(f"{name}: is {len(data)} bytes large, expected at most {max_bytes}", file=name)
    data = data.removeprefix(_BOM)
    if not data or data.isspace():
        raise ImportFailed(f"{name}: line 1: is empty, expected a conversation", file=name, line=1)
    if data.startswith(_SQLITE):
        text = "is a SQLite database, expected a file of conversations (--from imports those of other programs)"
        raise ImportFailed(f"{name}: {text}", file=name)
    if is_deep(data, MAX_DEPTH + WRAPPED):
        raise ImportFailed(f"{name}: is nested deeper than {MAX_DEPTH} levels", file=name)
    return data


def is_deep(data: bytes, limit: int = MAX_DEPTH) -> bool:
    """Whether brackets stand deeper than `limit` within each other; each pass over them takes the innermost pairs away.

    Example: `[[1], [[2]]]` -> `[[][[]]]` -> `[[]]` -> `[]` -> nothing: three levels.
    """
    brackets = _STRING.sub(b"", data).translate(_ONE_KIND, _NO_BRACKETS)
    for _ in range(limit):
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            break
        brackets = fewer
    return b"[]" in brackets or brackets.count(b"[") > limit


def parsed(data: bytes, name: str, line: int = 0) -> Any:
    """The value of checked bytes.

    Args:
        data: one JSON value.
        name: the file, for errors.
        line: the number of the line that `data` is; 0 for a whole file.
    Raises:
        ImportFailed: no JSON; with the line.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, ValueError):
        pass  # half a surrogate pair is JSON all the same, and the standard library tells lines
    try:
        text = data.decode("utf-8")
        return json.loads(text, parse_constant=_no_number, parse_float=_finite, parse_int=_whole)
    except UnicodeDecodeError as error:
        at = line or data.count(b"\n", 0, error.start) + 1
        raise ImportFailed(f"{name}: line {at}: is no UTF-8 text", file=name, line=at) from error
    except json.JSONDecodeError as error:
        at = line or error.lineno
        text = f"{name}: line {at}, column {error.colno}: is no JSON ({error.msg.lower()})"
        raise ImportFailed(text, file=name, line=at) from error
    except ValueError as error:
        where = f"{name}: line {line}" if line else name
        told = {"line": line} if line else {}
        raise ImportFailed(f"{where}: holds {error}, expected a number", file=name, **told) from error


def lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers from 1; only line feeds end a line, as JSON Lines has it."""
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            yield number, line


def _no_number(word: str) -> NoReturn:
    raise ValueError(word)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number larger than any that can be kept")
    return number


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError(f"a number of {len(digits)} digits")
    return int(digits)
