"""Rows of checkpoints as values and back, each compared with its seal; and what they say of a message that must go."""

from __future__ import annotations

from typing import Any

from novelo.messages import Message
from novelo.stores.checkpoints import GONE, Checkpoint, Inline, Ref, Written
from novelo.stores.tables.checkpoint_packing import ENCODE, body_of, decoded, items_of, parts_of, written_body
from novelo.stores.tables.connection import Connection
from novelo.stores.tables.rows import over, verify

QUOTED = 16  # characters from which on a text is looked for inside of others too


def put_checkpoint(db: Connection, *row: Any) -> None:
    """Write all columns of a checkpoint's row under a seal; SQLite would have to wait for us to call the function."""
    db.run("put", (*row, over("checkpoint", *row)))


def put_written(db: Connection, *row: Any) -> None:
    """Write all columns of the row for what a task wrote, likewise."""
    db.run("write", (*row, over("checkpoint writes", *row)))


def shorten_written(db: Connection, columns: tuple[Any, ...], body: bytes, former: bytes) -> None:
    """Another body for what a task wrote, if it is still the one that is known."""
    row = (*columns, body)
    db.run("shorten_write", (*row, former, over("checkpoint writes", *row)))


def read_checkpoint(key: bytes, row: tuple[Any, ...], names: tuple[str, str] = ("", "")) -> Checkpoint:
    """A checkpoint of all columns of its row but the thread.

    Raises:
        StorageCorrupt: it was altered outside of this program. SchemaTooNew: a newer version wrote it.
    """
    ns, number, name, parent, _, _, _, expires, body, found = row
    verify(found, "checkpoint", key, *row[:9])
    said = decoded(name)
    skeleton, metadata, values, before = parts_of(f"checkpoint {said}", key, body)
    follows = None if parent is None else decoded(parent)
    return Checkpoint(key, ns, number, said, follows, metadata, skeleton, values, names, expires, before)


def read_written(key: bytes, ns: str, number: int, row: tuple[Any, ...]) -> Written:
    """What a task wrote at a checkpoint, of the columns task, path, body and seal; likewise."""
    task, path, body, found = row
    verify(found, "checkpoint writes", key, ns, number, task, path, body)
    return Written(task, path, items_of(f"writes at checkpoint {number}", key, body))


# ---------------------------------------------------------------------------------------------- what must go
def has_checkpoints(db: Connection, key: bytes) -> bool:
    """Whether a graph has run on a thread."""
    return next(iter(db.run("any", (key,))), None) is not None


def forget(db: Connection, key: bytes, position: int, message: Message, *, replaced: bool = False) -> int:
    """An entry's content goes: so do its other versions, and values that hold one of its texts.

    Where it is replaced, states that held another version hold what the entry says from now on; else they lose it.
    The inputs of a graph, and what its tasks wrote, repeat what a user said. A value that holds such a text is emptied,
    and a state that had it comes back without that channel; of a short text only one that looks like an input is.

    Returns:
        How many values and rows were changed.
    """
    done = 0
    for (number,) in list(db.run("versions", (key, position))):
        db.run("as_entry" if replaced else "gone", (key, number))
        done += 1
    for sign in _signs(message):
        for number, body in list(db.run("quoting_values", (key, sign))):
            if _quotes(body, sign):
                db.run("gone", (key, number))
                done += 1
        for row in list(db.run("quoting_writes", (key, sign))):
            wrote = read_written(key, row[0], row[1], row[2:])
            items = _emptied_of(wrote, sign)
            if items != list(wrote.items):
                put_written(db, key, *row[:4], written_body(items))
                done += 1
    signs = _signs(message)
    for row in list(db.run("all_of_thread", (key,))) if signs else ():
        at = read_checkpoint(key, row)
        refs, before = at.values, at.before
        for sign in signs:
            refs = {channel: _emptied(ref, sign) for channel, ref in refs.items()}
            before = [Written(one.task, one.path, _emptied_of(one, sign)) for one in before]
        if (refs, before) != (at.values, at.before):
            put_checkpoint(db, key, *row[:8], body_of(at.skeleton, at.metadata, refs, before))
            done += 1
    return done


def _signs(message: Message) -> list[bytes]:
    texts = {part for part in (message.text, *(getattr(p, "text", None) for p in message.parts)) if part}
    texts |= {call.arguments for call in message.tool_calls if len(call.arguments) >= QUOTED}
    return [text.encode() if len(text) >= QUOTED else ENCODE(text) for text in texts]


def _emptied_of(one: Written, sign: bytes) -> list[tuple[int, str, Ref]]:
    return [(index, channel, _emptied(ref, sign)) for index, channel, ref in one.items]


def _emptied(ref: Ref, sign: bytes) -> Ref:
    return Inline(GONE, b"") if isinstance(ref, Inline) and _quotes(ref.body, sign) else ref


def _quotes(body: bytes, sign: bytes) -> bool:
    """Whether a value repeats a text: a long one anywhere, a short one only where somebody says it."""
    return sign in body and (len(sign) >= QUOTED or any(word in body for word in (b"user", b"human", b"content")))
