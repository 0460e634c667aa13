"""Bodies of checkpoints: what nearly all say in the same words is packed against those words; and ids as bytes.

A checkpoint's skeleton, its metadata, what its channels hold and what tasks wrote before it are some 600 bytes, of
which few are its own. They are deflated with a dictionary of LangGraph's words, which leaves some 120 in about 10 us.

An id is a UUID nearly always, and stands as its 16 bytes. UUIDs are in the order of their texts so, and so are other
texts; LangGraph has no thread with both.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from novelo.errors import SchemaTooNew, StorageCorrupt
from novelo.stores.checkpoints import Inline, Ref, Written

FORMAT = 1  # the first byte of a body
MOST_BYTES = 1 << 26  # of what is unpacked
ENCODE = msgspec.msgpack.Encoder().encode
PLAIN = "msgpack"  # the type of nearly all small values, which is left out
_LEVEL, _WINDOW, _MEMORY = 1, -12, 2
# Part of the format: another dictionary is another format.
_WORDS = (
    b'"thread_id":"checkpoint_ns":"run_id":"user_id":"langgraph_step":"writes":null,"source":"update","step":'
    b'"source":"fork","step":"source":"input","step":-1,"parents":{},{"source":"loop","step":1,"parents":{},'
    b'"counters_since_delta_snapshot":{"messages":[1,"ls_integration":"langchain_create_agent"}~__pregel_pull, tools'
    b"\xaflanggraph.types\xa4Send\x92\xa5tools\x91\x84\xa4name\xa4args\x81\xa2id\xbdcall_\xa4type\xa9tool_call"
    b"\x94\x04\xa7msgpack\xc4\x10\x93\xc4E\x81\xa8messages\x91\xc7\xee\x05\x94\xbdlangchain_core.messages.human\xacHumanMessage"
    b"\x86\xa7content\xd9\xc4K\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa5human\xa4name\xc0\xa2id\xc0"
    b"\xb3model_validate_json\xa4role\xa4user\xa2id"
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
        {"__start__": ["cut", 1, "messages"], "messages": [2, 0, [0, 300]], "__pregel_tasks": b"\x90",
         "branch:to:model": None},
        [[b"\0" * 16, "~__pregel_pull, __start__", [[0, "messages", [2, 0, [300, 1]]], [1, "branch:to:model", None]]]],
    )
)  # fmt: skip

_DEFLATE = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, _WORDS)  # to be copied

_Short = Ref | bytes | None  # bytes: a small value of the plain type; None: an empty one of the type "null"
_Behind = tuple[bytes, str, list[tuple[int, str, _Short]]]
_BODY = msgspec.msgpack.Decoder(tuple[bytes, str, dict[str, _Short], list[_Behind]])
_WRITES = msgspec.msgpack.Decoder(list[tuple[int, str, _Short]])


def body_of(skeleton: bytes, metadata: str, refs: dict[str, Ref], before: Sequence[Written] = ()) -> bytes:
    """A checkpoint as it is stored.

    Args:
        before: what tasks wrote at its parent.
    """
    behind = [(coded(one.task), one.path, _items(one.items)) for one in before]
    whole = ENCODE((skeleton, metadata, {name: _short(ref) for name, ref in refs.items()}, behind))
    deflate = _DEFLATE.copy()
    return bytes((FORMAT,)) + deflate.compress(whole) + deflate.flush()


def parts_of(what: str, key: bytes, body: Any) -> tuple[bytes, str, dict[str, Ref], list[Written]]:
    """The skeleton, metadata, values, and what tasks wrote at the parent.

    Raises:
        SchemaTooNew: a newer version wrote it. StorageCorrupt: it is none of ours.
    """
    try:
        skeleton, metadata, refs, behind = _BODY.decode(unpacked(_known(what, key, body)))
        before = [Written(decoded(task), path, _long_items(items)) for task, path, items in behind]
    except (msgspec.MsgspecError, ValueError, zlib.error) as error:
        raise StorageCorrupt(f"{what} of thread {key.hex()} is none of ours") from error
    return skeleton, metadata, {name: _long(ref) for name, ref in refs.items()}, before


def unpacked(packed: bytes) -> bytes:
    """What was packed; at most `MOST_BYTES` of it."""
    return zlib.decompressobj(_WINDOW, _WORDS).decompress(packed, MOST_BYTES)


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


# ------------------------------------------------------------------------------------------------ ids
_TEXT = b"\xff"  # stands in no UTF-8


def coded(name: str) -> bytes:
    """An id as bytes: 16 of a UUID; of another text its own, with a sign of no text behind it if it has 16 too."""
    if len(name) == 36 and name[8] == name[13] == name[18] == name[23] == "-":
        try:
            raw = bytes.fromhex(name.replace("-", ""))
        except ValueError:
            raw = b""
        if len(raw) == 16 and _spelled(raw) == name:
            return raw
    text = name.encode()
    return text + _TEXT if len(text) == 16 else text


def decoded(raw: bytes) -> str:
    """The id of some bytes."""
    if len(raw) == 16:
        return _spelled(raw)
    return raw.removesuffix(_TEXT).decode()


def _spelled(raw: bytes) -> str:
    text = raw.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
