"""Bodies of messages: what stands in a row says the message, and nothing twice."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given

from novelo import formats
from novelo.errors import InvalidMessage
from novelo.messages import ROLES, Message, encode
from novelo.stores.bodies import CODES, body_of, message_of
from novelo.testing.strategies import broken_conversations


@given(broken_conversations())
def test_a_body_says_its_message(conversation):
    """Any message comes back from its role and body as it was, but for its id; and so from JSON behind the role."""
    for message in formats.read(conversation):
        code, bare = CODES[message.role], msgspec.structs.replace(message, id=None)
        assert message_of(code, body_of(message)) == bare
        behind = encode(bare)[len(f'{{"role":"{message.role}"') :]
        assert message_of(code, behind) == bare and len(body_of(message)) <= len(behind)


@pytest.mark.parametrize("text", ["", ',"content":"x"', '"', "[", "}", "\x00"])
def test_a_text_is_no_sign(text):
    """A text that looks like the beginning of a body is a text; of a plain message the body is the text in JSON."""
    for role in ROLES:
        body = body_of(Message(role, text, id="named"))
        assert body == msgspec.json.encode(text) + b"}" and message_of(CODES[role], body) == Message(role, text)


@pytest.mark.parametrize("body", [b"", b"}", b'"', b'"x"', b"[", b'["x"', b',"content":', b'"x"}}', b"\xff"])
def test_what_is_no_body_is_refused(body):
    """Bytes that say no message are told, but for a message that says nothing."""
    if body == b"}":
        assert message_of(0, body) == Message("system")
    else:
        with pytest.raises(InvalidMessage):
            message_of(0, body)
