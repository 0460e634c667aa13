"""Messages as quoted text for a model to read about: line by line, so that nothing quoted can pass for the frame.

[12] user:
> Meu nome é Lívia.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from novelo.messages import MEDIA
from novelo.tokens import TextCounter
from novelo.transcript import Entry


def quote(text: str) -> str:
    """A text as quoted lines."""
    return "\n".join(f"> {line}" for line in text.splitlines())


def quoted(entry: Entry) -> str:
    """A message as quoted lines under a line that says who spoke, with its position."""
    message = entry.message
    lines = [quote(message.text)] if message.text.strip() else []
    media = [part for part in message.parts if isinstance(part, MEDIA)]
    lines += [f"> [{part.__class__.__name__.lower()}]" for part in media]
    lines += [quote(f"calls {call.name}: {call.arguments}") for call in message.tool_calls]
    who = "tool result" if message.role == "tool" else message.role
    return f"[{entry.position}] {who}:\n" + "\n".join(lines or ["> (nothing)"])


def in_parts(texts: Sequence[str], room: int, count: TextCounter) -> list[str]:
    """Texts put together in order, each part within the room; a text that is longer is cut between words."""
    out: list[str] = []
    held: list[str] = []
    used = 0
    for text in (piece for whole in texts for piece in _pieces(whole, room, count)):
        weight = count(text) + 2
        if held and used + weight > room:
            out.append("\n\n".join(held))
            held, used = [], 0
        held.append(text)
        used += weight
    return [*out, "\n\n".join(held)] if held else out


def _pieces(text: str, room: int, count: TextCounter) -> Iterator[str]:
    """A text in pieces that fit; each piece of a quotation begins with its line's sign."""
    total = count(text) + 2
    if total <= room:
        yield text
        return
    head, _, quoted = text.partition("\n")
    size = max(40, len(quoted) * (room * 9 // 10 - count(head)) // total)  # characters of a piece: a tenth to spare
    at, number = 0, 0
    while at < len(quoted):
        end = _break(quoted, at, size)
        while end - at > 40 and count(quoted[at:end]) + count(head) + 8 > room:
            end = _break(quoted, at, (end - at) * 3 // 4)
        piece = quoted[at:end].strip("\n")
        number += 1
        yield f"{head[:-1]} ({number}):\n" + (piece if piece.startswith(">") else f"> {piece}")
        at = end


def _break(text: str, start: int, size: int) -> int:
    """Where to cut: behind the last white space of a stretch, or in a word that is longer than it."""
    end = start + size
    if end >= len(text):
        return len(text)
    at = max(text.rfind(" ", start + size // 2, end), text.rfind("\n", start + size // 2, end))
    return at + 1 if at > start else end
