"""Entries as rows and back, with a seal over each.

SQLite notices few of the bits that a bad disk flips (2 of 87 in a trial): a seal over everything in the row makes an
altered row an error to its reader, never an altered text.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import msgspec

from novelo.errors import InvalidMessage, InvalidSpec, StorageCorrupt
from novelo.messages import ROLES, Message
from novelo.quiet import Quiet
from novelo.stores.base import StoredEntry
from novelo.stores.bodies import CODES, body_of, message_of

_MOMENTS = 1 << 52  # milliseconds that are exact as a float
_EMPTY = [Message(role) for role in ROLES]  # type: ignore[arg-type]


def _as_stored(value: Any) -> str:
    """A text of a class of its own is stored as a plain one."""
    if isinstance(value, str):
        return str.__str__(value)
    raise TypeError(f"a column of type {type(value).__name__}")


_PACK = msgspec.msgpack.Encoder(enc_hook=_as_stored).encode

Row = tuple[Any, ...]


def seal(
    key: bytes,
    position: int,
    turn: int,
    role: int,
    tokens: int,
    running: int,
    created: int,
    name: str | None,
    body: bytes | None,
) -> bytes:
    """Eight bytes over all columns of an entry."""
    head = b"%b%d %d %d %d %d %d %b\0" % (key, position, turn, role, tokens, running, created, (name or "").encode())
    return blake2b(head + (b"\0deleted" if body is None else body), digest_size=8).digest()


def over(*values: Any) -> bytes:
    """Eight bytes over some values, the first of which says what they are: `seal(...)` in our statements."""
    return blake2b(_PACK(values), digest_size=8).digest()


def whole(found: bytes | bool | None, what: str, *values: Any) -> bool:
    """Whether a row is as it was written; `True` stands for a seal where an engine has none."""
    return found is True or found == over(what, *values)


def verify(found: bytes | bool | None, what: str, key: bytes, *values: Any) -> None:
    """Compare a row's seal with its values.

    Raises:
        StorageCorrupt: the row was altered outside of this program.
    """
    if not whole(found, what, key, *values):
        raise StorageCorrupt(f"a {what} of thread {key.hex()} was altered outside of novelo: restore a backup")


class Facts(Quiet, msgspec.Struct, frozen=True, omit_defaults=True):
    """A thread's texts under one seal; its columns of the same names are copies to look for."""

    SAID = frozenset(("title", "tags", "metadata"))

    owner: str = ""
    thread_id: str = ""
    title: str = ""
    tags: tuple[str, ...] = ()
    metadata: dict[str, Any] = {}


def sealed(key: bytes, kind: str, data: bytes) -> bytes:
    """Data with a seal of eight bytes before it; kind keeps one from standing in another's place."""
    return blake2b(data, key=key + kind.encode(), digest_size=8).digest() + data


def unsealed(key: bytes, kind: str, blob: bytes) -> bytes:
    """The data under a seal.

    Raises:
        StorageCorrupt: it was altered outside of this program.
    """
    data = blob[8:]
    if not isinstance(blob, bytes) or blob[:8] != blake2b(data, key=key + kind.encode(), digest_size=8).digest():
        raise StorageCorrupt(f"the {kind} of thread {key.hex()} was altered outside of novelo: restore a backup")
    return data


def to_row(key: bytes, position: int, turn: int, message: Message, tokens: int, running: int, created: float) -> Row:
    """The row of an entry."""
    code, body = CODES[message.role], body_of(message)
    try:
        moment = round(created * 1000)
    except (ValueError, OverflowError) as error:
        raise InvalidSpec(f"moment {created!r}: expected seconds since 1970") from error
    if not -_MOMENTS < moment < _MOMENTS:
        raise InvalidSpec(f"moment {created!r}: expected seconds since 1970")
    return (
        key,
        position,
        turn,
        code,
        tokens,
        running,
        moment,
        message.id,
        body,
        seal(key, position, turn, code, tokens, running, moment, message.id, body),
    )


def from_row(key: bytes, row: Row, hidden: bool = False) -> StoredEntry:
    """The entry of a row as the statements `tail` and `range` give it.

    Raises:
        StorageCorrupt: the row was altered outside of this program.
    """
    position, turn, code, tokens, running, created, name, body, found = row
    try:
        whole = found is True or found == seal(key, position, turn, code, tokens, running, created, name, body)
    except (TypeError, AttributeError):  # a column of another type than it was written with
        whole = False
    if not whole:
        raise StorageCorrupt(
            f"entry {position} of thread {key.hex()} was altered outside of novelo: restore a backup", position=position
        )
    if body is None:
        return StoredEntry(position, _EMPTY[code], turn, tokens, running, created / 1000, hidden, True)
    try:
        message = message_of(code, body)
    except InvalidMessage as error:
        raise StorageCorrupt(
            f"entry {position} of thread {key.hex()} is no message of ours", position=position
        ) from error
    if name is not None:
        message = msgspec.structs.replace(message, id=name)
    return StoredEntry(position, message, turn, tokens, running, created / 1000, hidden)
