"""From a list of entries to turns of steps, newest first, whatever the history looks like.

A turn is a user message and all up to the next one; a step is an assistant message with the tool results that answer
it. Policies keep or drop steps and turns as a whole, so a result can never lose its call. Reading goes backwards and
stops where the policy stops pulling: the cost is that of what is kept.

Pairing goes by position: a result answers the nearest message before it that still waits for that id. Ids may recur in
a thread (they do, in a quarter of recorded agent runs), so no map over the whole thread is ever built. What does not
pair:

- a result behind a later message, or behind the next question, goes back to its call;
- a second result for a call is dropped; a real one beats a made one;
- a call without a result gets a made one that says just that, with status error;
- a result without a call is left out (it stays in the transcript);
- broken arguments become a JSON object that quotes them; a call hidden in a content block is lifted out;
- an assistant message that says nothing is left out; a blank user message says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from novelo.formats.openai import hidden_calls
from novelo.messages import Message, Other, ToolCall, is_blank
from novelo.protocol import is_json_object

# Fixed texts of what we make up: neutral, since nobody knows the cause; recognised again when a context is read back.
NO_RESULT = "[no result was recorded for this call]"
NOT_EXECUTED = "[this call was not executed: its arguments were incomplete]"
NO_ANSWER = "[no answer was recorded]"
OPENING = "[the conversation opens with the assistant]"
EMPTY = "[empty message]"
NO_OUTPUT = "[no output]"
_BROKEN = '{"_incomplete_arguments":'  # how arguments begin that quote what could not be read
MADE = frozenset((NO_RESULT, NOT_EXECUTED, NO_ANSWER, OPENING))
_STAND_IN = re.compile(r"interrupted|cancell?ed|aborted|no result|not executed|interrompid|cancelad", re.IGNORECASE)


class Entry(msgspec.Struct, eq=False):
    """A message at its place in the transcript.

    `tokens` is -1 until counted. `source` is the caller's own object as long as the message is unchanged, so that valid
    input comes back as the same objects. `changed` names the rule that altered the message on its way into the context.
    """

    position: int
    message: Message
    tokens: int = -1
    turn: int = 0
    running: int = 0
    source: Any = None
    changed: str = ""
    made: bool = False
    stored: int = 0  # tokens as the transcript counted them, whatever became of the message on its way

    def altered(self, message: Message, rule: str) -> Entry:
        """The entry with another message in its place, and the rule that did it."""
        rules = f"{self.changed}, {rule}" if self.changed and rule not in self.changed else rule
        return Entry(self.position, message, -1, self.turn, self.running, None, rules, self.made, self.stored)


class Step(msgspec.Struct, frozen=True, eq=False):
    """An assistant message and the results that answer it; a system message inside the thread is a step too."""

    head: Entry
    results: tuple[Entry, ...] = ()

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The assistant message, then its results."""
        return (self.head, *self.results)

    @property
    def size(self) -> int:
        """Messages in the step; made ones do not count."""
        return (not self.head.made) + sum(not r.made for r in self.results)


class Turn(msgspec.Struct, frozen=True, eq=False):
    """A user message (None where the thread opens with the assistant) and the steps behind it, oldest first."""

    user: Entry | None
    steps: tuple[Step, ...] = ()

    @property
    def entries(self) -> list[Entry]:
        """All entries in order."""
        out = [] if self.user is None else [self.user]
        for step in self.steps:
            out.append(step.head)
            out.extend(step.results)
        return out

    @property
    def start(self) -> int:
        """The position of the first entry."""
        first = self.user if self.user is not None else self.steps[0].head
        return first.position

    @property
    def size(self) -> int:
        """Messages in the turn; made ones do not count."""
        return (self.user is not None and not self.user.made) + sum(s.size for s in self.steps)


class Findings(msgspec.Struct, eq=False):
    """What reading left out, by position; a late result that finds its call later is taken off again.

    `moved` tells of each result that went back to its call where that call stands: they go in or stay out together.
    """

    left_out: dict[int, str] = msgspec.field(default_factory=dict)
    moved: dict[int, int] = msgspec.field(default_factory=dict)


class TurnReader:
    """Reads entries backwards into turns. `late` holds results that answered nothing in newer turns."""

    def __init__(self, findings: Findings | None = None, written_results: str = "") -> None:
        """Begin with nothing read.

        Args:
            findings: where left-out entries are noted.
            written_results: how a user message begins that holds tool results as text (templates without tools).
        """
        self.findings = findings or Findings()
        self.late: dict[str, list[Entry]] = {}
        self.written = written_results

    def newest_first(self, entries: Iterable[Entry]) -> Iterator[Turn]:
        """Turns, newest first, pulled from entries given newest first."""
        chunk: list[Entry] = []
        for entry in entries:
            chunk.append(entry)
            if entry.message.role == "user" and not self._continues(entry):
                chunk.reverse()
                turn = self.build(chunk)
                chunk = []
                if turn is not None:
                    yield turn
        if chunk:
            chunk.reverse()
            turn = self.build(chunk)
            if turn is not None:
                yield turn

    def oldest_first(self, entries: Iterable[Entry]) -> Iterator[Turn]:
        """Turns, oldest first, from entries given oldest first; late results are not looked for beyond the turn."""
        chunk: list[Entry] = []
        for entry in entries:
            if chunk and entry.message.role == "user" and not self._continues(entry):
                turn = self.build(chunk)
                if turn is not None:
                    yield turn
                chunk = []
            chunk.append(entry)
        turn = self.build(chunk) if chunk else None
        if turn is not None:
            yield turn

    def _continues(self, entry: Entry) -> bool:
        content = entry.message.content
        return bool(self.written) and isinstance(content, str) and content.startswith(self.written)

    def build(self, chunk: list[Entry]) -> Turn | None:
        """One turn from its entries, oldest first; None if nothing in it can be sent."""
        user, rest = None, chunk
        if chunk[0].message.role == "user":
            user, rest = self._user(chunk[0]), chunk[1:]
        if len(rest) == 1 and rest[0].message.role == "assistant" and not rest[0].message.tool_calls:
            head = self._assistant(rest[0])  # the common turn: question and answer
            if head is not None and not head.message.tool_calls:
                return Turn(user, (Step(head),))
            if head is None:
                return Turn(user) if user is not None else None
        if not rest:
            return Turn(user)
        steps = self._pair(rest)
        if user is None and not steps:
            return None
        return Turn(user, tuple(steps))

    def _user(self, entry: Entry) -> Entry:
        message = entry.message
        if message.content == OPENING:
            return _as_made(entry)
        if message.tool_calls:
            entry = entry.altered(msgspec.structs.replace(message, tool_calls=()), "calls on a user message removed")
        return (
            entry.altered(msgspec.structs.replace(entry.message, content=EMPTY), "blank message")
            if is_blank(entry.message)
            else entry
        )

    def _assistant(self, entry: Entry) -> Entry | None:
        """The assistant's entry with its calls in order; None if it says nothing."""
        message = entry.message
        if message.content.__class__ is tuple:
            lifted = lift_hidden_calls(message)
            if lifted is not message:
                entry, message = entry.altered(lifted, "hidden call"), lifted
        if message.tool_calls:
            calls = sound_calls(message.tool_calls, entry.position)
            if calls is not message.tool_calls:
                entry = entry.altered(msgspec.structs.replace(message, tool_calls=calls), "call mended")
            return entry
        if is_blank(message):
            self.findings.left_out[entry.position] = "says nothing"
            return None
        return _as_made(entry) if message.content == NO_ANSWER and not entry.made else entry

    def _system(self, entry: Entry) -> Entry | None:
        entry = without_calls(entry)
        if not is_blank(entry.message):
            return entry
        self.findings.left_out[entry.position] = "says nothing"
        return None

    def _pair(self, rest: list[Entry]) -> list[Step]:
        open_steps: list[_Open] = []
        stray: list[Entry] = []
        current: _Open | None = None
        for entry in rest:
            role = entry.message.role
            if role == "tool":
                self._place(entry, current, open_steps, stray)
            elif role == "user":  # results written as text, in a template without tools
                if current is not None:
                    current.written.append(_as_made(entry))
                else:
                    open_steps.append(_Open(entry, ()))
            else:
                head = self._assistant(entry) if role == "assistant" else self._system(entry)
                if head is None:
                    continue
                current = _Open(head, entry.message.tool_calls if role == "assistant" else ())
                open_steps.append(current)
        for step in reversed(open_steps):
            self._find_missing(step, stray)
        for entry in stray:
            self.late.setdefault(entry.message.tool_call_id or "", []).insert(0, entry)
            self.findings.left_out[entry.position] = "result without its call"
        return [step.close() for step in open_steps]

    def _place(self, entry: Entry, current: _Open | None, open_steps: list[_Open], stray: list[Entry]) -> None:
        entry = _with_content(entry)
        call_id = entry.message.tool_call_id
        if current is not None:
            if current.answer(entry):
                return
            if call_id in current.ids:
                if not current.replace_made(entry):
                    self.findings.left_out[entry.position] = "second result of one call"
                return
        for step in reversed(open_steps):
            if step is not current and step.answer(entry, moved=True):
                self.findings.moved[entry.position] = step.head.position
                return
        stray.append(entry)

    def _find_missing(self, step: _Open, stray: list[Entry]) -> None:
        for i, result in enumerate(step.results):
            if result is not None:
                continue
            wanted = step.ids[i]
            found = next((s for s in stray if s.message.tool_call_id == wanted), None)
            if found is not None:
                stray.remove(found)
            elif self.late.get(wanted):
                found = self.late[wanted].pop(0)
                self.findings.left_out.pop(found.position, None)
            if found is not None:
                self.findings.moved[found.position] = step.head.position
                step.put(i, found, moved=True)


class _Open:
    """A step while its results are being looked for; `ids` are those that results name, one slot for each call."""

    def __init__(self, head: Entry, calls: tuple[ToolCall, ...]) -> None:
        self.head = head
        self.ids = [call.id for call in calls] + [call.id for call in head.message.tool_calls[len(calls) :]]
        self.results: list[Entry | None] = [None] * len(self.ids)
        self.arrived: list[Entry] = []
        self.written: list[Entry] = []
        self.moved = False

    def put(self, slot: int, entry: Entry, moved: bool) -> None:
        """Answer the call of a slot; the result takes the id that the call has now."""
        name = self.head.message.tool_calls[slot].id
        if entry.message.tool_call_id != name:
            entry = entry.altered(msgspec.structs.replace(entry.message, tool_call_id=name), "call id")
        elif moved:
            entry = msgspec.structs.replace(entry, changed="moved to its call")
        self.results[slot] = entry
        self.arrived.append(entry)
        self.moved = self.moved or moved

    def answer(self, entry: Entry, moved: bool = False) -> bool:
        """Take a result if a call with its id still waits; one without an id answers the first that waits."""
        wanted = entry.message.tool_call_id
        for i, known in enumerate(self.ids):
            if self.results[i] is None and (known == wanted or (not wanted and not moved)):
                self.put(i, entry, moved)
                return True
        return False

    def replace_made(self, entry: Entry) -> bool:
        """Take a second result in place of one that only stands in for it."""
        if _stands_in(entry.message):
            return False
        for i, known in enumerate(self.ids):
            old = self.results[i]
            if known == entry.message.tool_call_id and old is not None and _stands_in(old.message):
                self.arrived.remove(old)
                self.put(i, entry, False)
                return True
        return False

    def close(self) -> Step:
        """The step; results keep the order in which they came unless one was missing or moved."""
        if not self.ids:
            return Step(self.head, tuple(self.written))
        if None in self.results:
            for i, result in enumerate(self.results):
                if result is None:
                    self.results[i] = self._made(i)
        elif not self.moved:
            return Step(self.head, tuple(_marked(r) for r in self.arrived))
        return Step(self.head, tuple(_marked(r) for r in self.results if r is not None))

    def _made(self, slot: int) -> Entry:
        call = self.head.message.tool_calls[slot]
        text = NOT_EXECUTED if call.arguments.startswith(_BROKEN) else NO_RESULT
        message = Message("tool", text, tool_call_id=call.id, meta={"made": "no result", "status": "error"})
        return Entry(self.head.position, message, -1, self.head.turn, self.head.running, None, "made", True)


def _marked(entry: Entry) -> Entry:
    content = entry.message.content
    return _as_made(entry) if isinstance(content, str) and content in MADE and not entry.made else entry


def _as_made(entry: Entry) -> Entry:
    return msgspec.structs.replace(entry, made=True)


def without_calls(entry: Entry) -> Entry:
    """A system message, which calls nothing."""
    if not entry.message.tool_calls:
        return entry
    return entry.altered(msgspec.structs.replace(entry.message, tool_calls=()), "calls on a system message removed")


def _with_content(entry: Entry) -> Entry:
    message = entry.message
    if message.content is None or message.content == ():
        entry = entry.altered(msgspec.structs.replace(message, content=NO_OUTPUT), "blank result")
    if message.tool_calls:
        entry = entry.altered(msgspec.structs.replace(entry.message, tool_calls=()), "calls on a result removed")
    return entry


def _stands_in(message: Message) -> bool:
    text = message.text
    return text in MADE or bool(message.meta.get("made")) or (len(text) < 100 and _STAND_IN.search(text) is not None)


def lift_hidden_calls(message: Message) -> Message:
    """The message with calls taken out of content blocks and put where calls belong; itself if there are none."""
    hidden = hidden_calls(message)
    if not hidden:
        return message
    known = {call.id for call in message.tool_calls}
    content = tuple(p for p in message.parts if not (isinstance(p, Other) and hidden_calls(Message("assistant", (p,)))))
    calls = message.tool_calls + tuple(call for call in hidden if call.id not in known)
    return msgspec.structs.replace(message, content=content or None, tool_calls=calls)


def sound_calls(calls: tuple[ToolCall, ...], position: int) -> tuple[ToolCall, ...]:
    """Calls with unlike ids, names, and arguments that are JSON objects; the same tuple if nothing was amiss.

    New ids are made from the position and the order, never at random: the same history gives the same bytes, so the
    provider's cached prefix stays warm.
    """
    seen: set[str] = set()
    out = []
    for i, call in enumerate(calls):
        name, new_id, arguments = call.name or "unknown", call.id, call.arguments
        if not new_id:
            new_id = f"call_{position}_{i}"
        while new_id in seen:
            new_id = f"{new_id}_{i}"
        seen.add(new_id)
        if not is_json_object(arguments):
            arguments = _BROKEN + msgspec.json.encode(_legal(arguments)).decode() + "}" if arguments.strip() else "{}"
        same = (new_id, name, arguments) == (call.id, call.name, call.arguments)
        out.append(call if same else ToolCall(new_id, name, arguments, call.extra))
    return calls if all(a is b for a, b in zip(out, calls, strict=True)) else tuple(out)


def _legal(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
