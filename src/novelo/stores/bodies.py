"""A message as the body of its row, and back: its JSON less what the row says beside it.

Role and id have columns of their own, and nearly every message says its content next: what is left of
`{"role":"user","content":"hi"}` is `"hi"}`. A body that begins otherwise is the JSON from behind the role on.
"""

from __future__ import annotations

import msgspec

from novelo.messages import ROLES, Message, decode, encode

CODES = {role: number for number, role in enumerate(ROLES)}  # of roles, in their column
_HEADS = [b'{"role":"' + role.encode() + b'"' for role in ROLES]
_CONTENT = b',"content":'
_SAID = (b'"', b"[")  # how the content of a message begins, and the rest of no JSON object does
_HEADS_OF_CONTENT = [head + _CONTENT for head in _HEADS]


def body_of(message: Message) -> bytes:
    """The body of a message."""
    bare = message if message.id is None else msgspec.structs.replace(message, id=None)
    body = encode(bare)[len(_HEADS[CODES[message.role]]) :]
    return body[len(_CONTENT) :] if body.startswith(_CONTENT) and body[len(_CONTENT) :].startswith(_SAID) else body


def message_of(code: int, body: bytes) -> Message:
    """The message of a body, without its id.

    Raises:
        InvalidMessage: it is none.
    """
    return decode((_HEADS_OF_CONTENT if body.startswith(_SAID) else _HEADS)[code] + body)
