"""Bodies of checkpoints: what nearly all say in the same words is packed against those words.

A checkpoint's skeleton, its metadata and the names of its channels are some 380 bytes, of which few are its own. They
are deflated with a dictionary of LangGraph's words, which leaves some 75 in about 10 us. What channels hold stands
behind them as it is, so that texts can be looked for in it.

Example: `messages` with nine entries, no pending task, an empty value -> packed, [[2, 0, [0, 9]], bytes, nil].
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from novelo.errors import SchemaTooNew, StorageCorrupt
from novelo.stores.checkpoints import Inline, Ref, Written

FORMAT = 1  # the first byte of a body
MOST_BYTES = 1 << 28  # of what is unpacked
ENCODE = msgspec.msgpack.Encoder().encode
PLAIN = "msgpack"  # the type of nearly all small values, which is left out
_LEVEL, _WINDOW, _MEMORY = 1, -12, 4
# Part of the format: another dictionary is another format.
_WORDS = (
    b'"thread_id":"checkpoint_ns":"run_id":"user_id":"langgraph_step":"writes":null,"source":"update","step":'
    b'"source":"fork","step":"source":"input","step":-1,"parents":{},{"source":"loop","step":1,"parents":{},'
    b'"counters_since_delta_snapshot":{"messages":[1,"ls_integration":"langchain_create_agent"}'
) + ENCODE(
    (
        ENCODE(
            {
                "v": 4,
                "ts": "2026-01-01T00:00:00.000000+00:00",
                "channel_versions": {
                    "__start__": 2, "__pregel_tasks": 2, "messages": 3, "branch:to:agent": 300,
                    "branch:to:tools": 300, "branch:to:model": 300,
                },
                "versions_seen": {
                    "__input__": {}, "__start__": {"__start__": 300}, "agent": {"branch:to:agent": 300},
                    "tools": {"branch:to:tools": 300}, "model": {"branch:to:model": 300},
                },
                "updated_channels": ["__start__", "branch:to:model", "messages"],
            }
        ),
        '{"source":"loop","step":1,"parents":{}}',
        ["messages", "__pregel_tasks", "branch:to:model"],
    )
)  # fmt: skip

_Short = Ref | bytes | None  # bytes: a small value of the plain type; None: an empty one of the type "null"
_BODY = msgspec.msgpack.Decoder(tuple[bytes, list[_Short], list[tuple[str, str, list[tuple[int, str, _Short]]]]])
_HEAD = msgspec.msgpack.Decoder(tuple[bytes, str, list[str]])
_WRITES = msgspec.msgpack.Decoder(list[tuple[int, str, _Short]])


def body_of(skeleton: bytes, metadata: str, refs: dict[str, Ref], before: Sequence[Written] = ()) -> bytes:
    """A checkpoint as it is stored.

    Args:
        before: what tasks wrote at its parent.
    """
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, _WORDS)
    head = deflate.compress(ENCODE((skeleton, metadata, list(refs)))) + deflate.flush()
    behind = [(one.task, one.path, _items(one.items)) for one in before]
    return bytes((FORMAT,)) + ENCODE((head, [_short(ref) for ref in refs.values()], behind))


def parts_of(what: str, key: bytes, body: Any) -> tuple[bytes, str, dict[str, Ref], list[Written]]:
    """The skeleton, metadata, values, and what tasks wrote at the parent.

    Raises:
        SchemaTooNew: a newer version wrote it. StorageCorrupt: it is none of ours.
    """
    try:
        packed, refs, behind = _BODY.decode(_known(what, key, body))
        inflate = zlib.decompressobj(_WINDOW, _WORDS)
        head = inflate.decompress(packed, MOST_BYTES)
        skeleton, metadata, names = _HEAD.decode(head)
    except (msgspec.MsgspecError, ValueError, zlib.error) as error:
        raise StorageCorrupt(f"{what} of thread {key.hex()} is none of ours") from error
    values = {name: _long(ref) for name, ref in zip(names, refs, strict=False)}
    return skeleton, metadata, values, [Written(task, path, _long_items(items)) for task, path, items in behind]


def written_body(items: Sequence[tuple[int, str, Ref]]) -> bytes:
    """What a task wrote as it is stored."""
    return bytes((FORMAT,)) + ENCODE(_items(items))


def items_of(what: str, key: bytes, body: Any) -> list[tuple[int, str, Ref]]:
    """The same back; likewise."""
    try:
        return _long_items(_WRITES.decode(_known(what, key, body)))
    except (msgspec.MsgspecError, ValueError) as error:
        raise StorageCorrupt(f"{what} of thread {key.hex()} are none of ours") from error


def _known(what: str, key: bytes, body: Any) -> bytes:
    """A body without the byte for its format."""
    if not isinstance(body, bytes) or not body:
        raise StorageCorrupt(f"{what} of thread {key.hex()} is empty: restore a backup")
    if body[0] > FORMAT:
        raise SchemaTooNew(f"{what} has format {body[0]}, this version knows up to {FORMAT}: upgrade novelo")
    return body[1:]


def _short(ref: Ref) -> _Short:
    if isinstance(ref, Inline):
        if ref.type == PLAIN:
            return ref.body
        if ref.type == "null" and not ref.body:
            return None
    return ref


def _long(ref: _Short) -> Ref:
    if ref is None:
        return Inline("null", b"")
    return Inline(PLAIN, ref) if isinstance(ref, bytes) else ref


def _items(items: Sequence[tuple[int, str, Ref]]) -> list[tuple[int, str, _Short]]:
    return [(index, channel, _short(ref)) for index, channel, ref in items]


def _long_items(items: Sequence[tuple[int, str, _Short]]) -> list[tuple[int, str, Ref]]:
    return [(index, channel, _long(ref)) for index, channel, ref in items]
