"""From kept turns to the message list of one dialect: what a provider asks beyond pairing.

Everything here is done to a whole turn, so that a policy can count a turn before it decides to keep it (`Wire.turn`),
and then once to the whole list (`Wire.assemble`): messages of one side that must not stand in a row are joined there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from novelo.formats.anthropic import legal_call_id
from novelo.messages import Message, Part, Reasoning, Text, ToolCall, is_blank
from novelo.protocol import Dialect
from novelo.transcript import NO_ANSWER, OPENING, Entry, Step, Turn, without_calls

WRITTEN_CALL = "[tool call] "
WRITTEN_RESULT = "[tool result] "
KEEPS_THOUGHTS = (
    "anthropic",
    "gemini",
)  # whose lists have a place for signed thoughts; OpenAI's only as Responses items


class Wire:
    """Turns written in one dialect. Values only; nothing is stored."""

    def __init__(self, rules: Dialect, model: str | None = None, begin: int = 0) -> None:
        """Begin a list.

        Args:
            rules: the dialect.
            model: the model's name, if known; thoughts of others are left out.
            begin: the first position behind the system messages.
        """
        self.rules = rules
        self.model = model
        self.begin = begin

    def turn(self, turn: Turn, newest: bool, first: bool = False) -> list[Entry]:
        """The entries of a turn as they will be sent.

        Args:
            turn: the turn.
            newest: whether it is the last one; an older turn that ends with tool results is closed by a made answer
                where the dialect wants one.
            first: whether it opens the list; a turn without a question then gets one where the dialect wants one.
        """
        rules = self.rules
        out: list[Entry] = []
        if turn.user is not None:
            out.append(turn.user)
        elif first and self.needs_opening(turn):
            place = turn.start
            out.append(Entry(place, Message("user", OPENING, meta={"made": "opening"}), changed="made", made=True))
        for step in turn.steps:
            out.extend(self.step(step))
        if not newest and not rules.user_after_result:
            said = next((s for s in reversed(turn.steps) if s.head.message.role != "system"), None)
            if said is not None and said.results:
                closing = Message("assistant", NO_ANSWER, meta={"made": "no answer"})
                out.append(Entry(said.results[-1].position, closing, changed="made", made=True))
        return out

    def needs_opening(self, turn: Turn) -> bool:
        """Whether a turn without a question cannot open a list of this dialect as it stands.

        Where the provider lets the assistant open, a greeting that opened the thread is left as it was; what only a cut
        or a gap has brought to the front gets a made question.
        """
        if self.rules.opens_with_user or not turn.steps:
            return True
        head = turn.steps[0].head
        if head.changed or head.position != self.begin:
            return True
        return not self.rules.opens_with_call and any(step.head.message.tool_calls for step in turn.steps)

    def step(self, step: Step) -> Iterable[Entry]:
        """A step for the provider: no thoughts of other models, ids in its form, tools as text if it has none."""
        head = self._thoughts(step.head)
        if not head.message.tool_calls and not step.results:
            return (head,)
        if not self.rules.tools:
            return self._written(head, step.results)
        if self.rules.call_id is not None:
            return self._legal_ids(head, step.results)
        return (head, *step.results)

    def _thoughts(self, entry: Entry) -> Entry:
        """Thoughts are signed by one provider's model and refused by others: left out whole, never edited."""
        content = entry.message.content
        if content.__class__ is not tuple or not any(p.__class__ is Reasoning for p in content):
            return entry
        author = entry.message.meta.get("model")
        foreign = author is not None and self.model is not None and author != self.model
        if not foreign and (self.rules.name in KEEPS_THOUGHTS or entry.message.meta.get("form") == "responses"):
            return entry
        kept: tuple[Part, ...] = tuple(p for p in content if p.__class__ is not Reasoning)
        return entry.altered(msgspec.structs.replace(entry.message, content=kept or None), "thoughts of another model")

    def _legal_ids(self, head: Entry, results: Sequence[Entry]) -> Iterable[Entry]:
        pattern = self.rules.call_id
        if pattern is None or all(pattern.fullmatch(call.id) for call in head.message.tool_calls):
            return (head, *results)
        calls = tuple(ToolCall(legal_call_id(c.id), c.name, c.arguments, c.extra) for c in head.message.tool_calls)
        out = [head.altered(msgspec.structs.replace(head.message, tool_calls=calls), "call id")]
        for result in results:
            renamed = msgspec.structs.replace(
                result.message, tool_call_id=legal_call_id(result.message.tool_call_id or "")
            )
            out.append(result.altered(renamed, "call id"))
        return out

    def _written(self, head: Entry, results: Sequence[Entry]) -> Iterable[Entry]:
        """Calls and results as text, for templates that have neither: the assistant's text, then one user message."""
        calls = head.message.tool_calls
        if not calls:
            return (head, *results)  # read back from a list that we wrote
        lines = [head.message.text] if head.message.text.strip() else []
        lines += [f"{WRITTEN_CALL}{call.name}({call.arguments})" for call in calls]
        said = msgspec.structs.replace(head.message, content="\n".join(lines), tool_calls=())
        names = {call.id: call.name for call in calls}
        texts = [f"{WRITTEN_RESULT}{names.get(r.message.tool_call_id or '', '')}: {r.message.text}" for r in results]
        answer = Entry(
            results[0].position if results else head.position,
            Message("user", "\n".join(texts)),
            changed="tools written as text",
            made=all(r.made for r in results),
        )
        return (head.altered(said, "tools written as text"), answer)

    def assemble(self, opening: Sequence[Entry], turns: Sequence[Turn]) -> list[Entry]:
        """The whole list: the opening, then turns, oldest first; joined and hoisted where the dialect wants it."""
        systems = (without_calls(e) for e in opening if e.message.role == "system")
        head = [e for e in systems if not is_blank(e.message)]
        body = [e for e in opening if e.message.role != "system"]  # a summary
        last, opens = len(turns) - 1, not body
        for i, turn in enumerate(turns):
            body.extend(self.turn(turn, i == last, i == 0 and opens))
        if not self.rules.system_inside and any(e.message.role == "system" for e in body):
            head, body = self._hoisted(head, body)
        if self.rules.one_system and len(head) > 1:
            head = [joined(head)]
        return head + (alternating(body) if self.rules.alternates else body)

    def _hoisted(self, head: list[Entry], body: list[Entry]) -> tuple[list[Entry], list[Entry]]:
        """System messages inside the thread join the system prompt: their authority is kept, their place is not."""
        inside = [e for e in body if e.message.role == "system"]
        return [joined(head + inside)], [e for e in body if e.message.role != "system"]


def alternating(entries: Iterable[Entry]) -> list[Entry]:
    """Neighbours of one role joined, so that user and assistant take turns."""
    out: list[list[Entry]] = []
    for entry in entries:
        if out and out[-1][0].message.role == entry.message.role:
            out[-1].append(entry)
        else:
            out.append([entry])
    return [group[0] if len(group) == 1 else joined(group) for group in out]


def joined(entries: Sequence[Entry]) -> Entry:
    """One entry for several of one role: texts joined by a blank line, other parts kept in order."""
    first = entries[0]
    if len(entries) == 1:
        return first
    contents = [e.message.content for e in entries]
    content: str | tuple[Part, ...]
    if all(isinstance(c, str) or c is None for c in contents):
        content = "\n\n".join(c for c in contents if isinstance(c, str) and c)
    else:
        parts: list[Part] = []
        for entry in entries:
            if parts and isinstance(parts[-1], Text):
                parts.append(Text(text="\n\n"))
            parts.extend(entry.message.parts)
        content = tuple(parts)
    entry = first.altered(msgspec.structs.replace(first.message, content=content), "joined")
    return Entry(
        entry.position, entry.message, -1, entry.turn, entry.running, None, entry.changed, all(e.made for e in entries)
    )
