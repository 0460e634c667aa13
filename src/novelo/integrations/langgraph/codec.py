"""Values as bytes and back, by LangGraph's serializer; messages as entries of our transcript.

Only types of an allow-list are built when something is read: LangChain's and LangGraph's own, plain ones of Python, and
those that `allow` names. What else stands in a database comes back as plain data, and no code of it runs. Formats that
this saver never writes (JSON with constructors, pickle) are refused, and so is all that is not encrypted where a cipher
is in use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from novelo.errors import InvalidMessage, StorageCorrupt
from novelo.formats.langchain import from_langchain, to_langchain
from novelo.memory import Memory
from novelo.messages import Message, decode, encode
from novelo.stores.base import NewEntry
from novelo.stores.checkpoints import Blob, Said, hash_of

WRITTEN = ("msgpack", "null", "bytes", "bytearray")  # the formats that LangGraph's serializer writes
_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_PACK = msgspec.msgpack.Encoder().encode


def strict(allow: Iterable[type | tuple[str, ...]] = ()) -> JsonPlusSerializer:
    """LangGraph's serializer with its strict allow-list, whatever the environment says, and some types more."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    return serde.with_msgpack_allowlist(tuple(allow)) if allow else serde


class Codec:
    """A serializer, and what we do around it."""

    def __init__(self, serde: SerializerProtocol, memory: Memory) -> None:
        self.serde, self._memory = serde, memory
        self._cipher = serde.cipher if isinstance(serde, EncryptedSerializer) else None
        self.encrypted = self._cipher is not None
        inner = serde.serde if isinstance(serde, EncryptedSerializer) else serde
        self._inner = inner
        self._formats = WRITTEN if isinstance(inner, JsonPlusSerializer) and not inner.pickle_fallback else None

    # ------------------------------------------------------------------------------------------ values
    def blob(self, value: Any, key: bytes) -> Blob:
        """A value as bytes, with a keyed hash of what it says: that is the same where the cipher never is."""
        kind, data = self._inner.dumps_typed(value)
        found = hash_of(key, kind, data)
        if self._cipher is not None:
            name, data = self._cipher.encrypt(data)
            kind = f"{kind}+{name}"
        return Blob(kind, data, found)

    def load(self, kind: str, data: bytes) -> Any:
        """A value from its bytes.

        Raises:
            StorageCorrupt: a format that was never written here, or bytes that say nothing in it.
        """
        plain, _, cipher = kind.partition("+")
        if self.encrypted and not cipher:
            raise StorageCorrupt(f"a value of format {kind!r} is not encrypted, and all should be")
        if self._formats is not None and plain not in self._formats:
            raise StorageCorrupt(f"a value of format {kind!r}: expected {', '.join(self._formats)}")
        try:
            return self.serde.loads_typed((kind, data))
        except Exception as error:
            raise StorageCorrupt(f"a value of format {kind!r} cannot be read: {type(error).__name__}") from error

    # ------------------------------------------------------------------------------------------ messages
    def said(self, message: BaseMessage, key: bytes, blob: Blob | None = None) -> Said:
        """A message for the store: the entry that it may become, and its bytes in case that says less."""
        blob = blob or self.blob(message, key)
        if self.encrypted:
            return Said(NewEntry(Message(_role(message), None, id=message.id)), blob, exact=False)  # type: ignore[arg-type]
        try:
            plain = _plain(message)
            ours = Message(_role(message), message.content, id=message.id) if plain else from_langchain(message)  # type: ignore[arg-type]
            entry = self._memory.new_entry(ours)
            exact = plain and entry.message is ours
            if not exact:
                back = to_langchain(decode(encode(entry.message)))
                exact = self.blob(back, key).hash == blob.hash
        except InvalidMessage:
            text = message.text if isinstance(message.content, (str, list)) else ""
            entry = self._memory.new_entry(Message(_role(message), str(text), id=message.id))  # type: ignore[arg-type]
            exact = False
        return Said(entry, blob, exact)

    # ------------------------------------------------------------------------------------------ what is around them
    def skeleton(self, checkpoint: dict[str, Any]) -> bytes:
        """A checkpoint less its id and values."""
        rest = {name: value for name, value in checkpoint.items() if name not in ("id", "channel_values")}
        try:
            return _PACK(rest)
        except (TypeError, ValueError):
            return _PACK(self._inner.dumps_typed(rest))

    def bones(self, skeleton: bytes) -> dict[str, Any]:
        """The same from its bytes."""
        try:
            found = msgspec.msgpack.decode(skeleton)
        except (msgspec.MsgspecError, ValueError) as error:
            raise StorageCorrupt("a checkpoint cannot be read: restore a backup") from error
        if isinstance(found, list):
            if found[0] not in WRITTEN:
                raise StorageCorrupt(f"a checkpoint of format {found[0]!r}: expected {', '.join(WRITTEN)}")
            found = self._inner.loads_typed((found[0], found[1]))
        if not isinstance(found, dict):
            raise StorageCorrupt("a checkpoint cannot be read: restore a backup")
        return found


def _plain(message: BaseMessage) -> bool:
    """Whether a message says nothing but a text, by whom, and its id: that always comes back the same."""
    fields = message.__dict__
    return (
        message.__class__ in (HumanMessage, AIMessage)
        and fields["content"].__class__ is str
        and fields["name"] is None
        and not (fields["additional_kwargs"] or fields["response_metadata"] or message.__pydantic_extra__)
        and not any(fields.get(name) for name in ("tool_calls", "invalid_tool_calls", "usage_metadata"))
    )


def _role(message: BaseMessage) -> str:
    return _ROLES.get(message.type.removesuffix("MessageChunk").lower(), "assistant")
