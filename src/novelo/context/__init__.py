"""From messages and a policy to the context of one call.

    source -> draft -> policy -> kept turns -> wire -> context

`compose` takes a plain list, `compose_source` anything that can be read backwards (a thread in a store). The result is
checked against the same table that a caller can use (`protocol.py`); a breach in what we built is our fault and raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from novelo import formats
from novelo.context.draft import Desk, Draft, Pulled, Source
from novelo.context.listing import ListSource, OtherForm
from novelo.context.manifest import Manifest, Retrieved, explain, left_out, ranges
from novelo.context.recall import Recall, recalled
from novelo.context.spec import Pipeline, Policy, name_of, parse, stages_of
from novelo.context.summary import PLACE
from novelo.errors import InvalidContext, InvalidSpec
from novelo.messages import Message, is_blank
from novelo.protocol import check_messages, dialect
from novelo.summaries import Summary
from novelo.tokens import TextCounter, count_message, count_tools
from novelo.tokens import counter as counter_of
from novelo.transcript import Entry, Step, Turn, TurnReader
from novelo.wire import WRITTEN_RESULT, Wire

__all__ = [
    "Context",
    "Draft",
    "Entry",
    "Manifest",
    "Policy",
    "Retrieved",
    "Source",
    "Step",
    "Turn",
    "compose",
    "compose_source",
    "parse",
]


class Context:
    """The messages of one call, what they weigh, and why each of the others is not among them."""

    def __init__(self, entries: Sequence[Entry], manifest: Manifest, form: str) -> None:
        self.entries = tuple(entries)
        self.manifest = manifest
        self.form = form
        self.policy: Policy | None = None

    @property
    def tokens(self) -> int:
        """Tokens of all that the model reads: messages, system, tools, passages."""
        return self.manifest.tokens["total"]

    def messages(self, form: str | None = None) -> Any:
        """The messages in a provider's form.

        Args:
            form: "openai", "anthropic", "langchain", "responses", "gemini", "mistral", or "message" for our own; None
                is the form that came in. Unchanged messages are the very objects that came in.
        """
        wanted = form or self.form
        if wanted == self.form and wanted in ("openai", "langchain", "message"):
            write = formats.writer(wanted)
            return [write(e.message) if e.source is None else e.source for e in self.entries]
        return formats.write([e.message for e in self.entries], wanted)

    def explain(self) -> str:
        """In words: what is in, what is out and by which rule, what was changed."""
        return explain(self.manifest)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"Context({len(self.entries)} messages, {self.tokens} tokens, {self.manifest.policy})"


def compose(
    messages: Sequence[Any],
    policy: Any = "buffer",
    provider: str = "openai",
    model: str | None = None,
    pins: Iterable[int | str] = (),
    *,
    counter: Any = "estimate",
    tools: Sequence[dict[str, Any]] | None = None,
    window: int | None = None,
    summary: Summary | None = None,
) -> Context:
    """The context of the next call from a plain list.

    Args:
        messages: n messages in OpenAI, Anthropic, Responses or LangChain form, oldest first.
        policy: a spec ("window:10turns"), a policy, a function, or a list of them.
        provider: whose rules hold: openai, anthropic, gemini, mistral, strict.
        model: the model's name; thoughts signed by another model are left out.
        pins: positions or ids of messages that must stay.
        counter: "estimate", "o200k", "cl100k", or a function text -> tokens.
        tools: tool definitions, counted with the context.
        window: tokens of the model's window, for budgets in per cent.
        summary: what stands for the older part, for a policy that summarizes; see `novelo.compaction`.
    Raises:
        InvalidSpec, InvalidMessage: the policy or a message makes no sense.
        ContextTooSmall: a budget cannot be kept.
    """
    counted = counter_of(counter)
    chosen = parse(policy)

    def composed(form: str | None) -> Context:
        written = "" if dialect(provider).tools else WRITTEN_RESULT
        source = ListSource(messages, partial(count_message, count=counted), written, form)
        return compose_source(
            source,
            source.opening(),
            chosen,
            provider=provider,
            model=model,
            pins=[source.position_of(pin) for pin in pins],
            counter=counted,
            tools=tools,
            window=window,
            form=source.form,
            summary=summary,
        )

    pins = list(pins)
    try:
        return composed(None)
    except OtherForm as other:
        return composed(other.form)


def compose_source(
    source: Source,
    opening: Sequence[Entry],
    policy: Policy,
    *,
    counter: TextCounter,
    provider: str = "openai",
    model: str | None = None,
    pins: Sequence[int] = (),
    tools: Sequence[dict[str, Any]] | None = None,
    fixed_tokens: int = 0,
    correction: int = 0,
    window: int | None = None,
    form: str = "openai",
    system: str | None = None,
    question: str | None = None,
    passages: Sequence[dict[str, Any]] = (),
    retrieved: Retrieved | None = None,
    summary: Summary | None = None,
) -> Context:
    """The context from anything that can be read backwards; see `compose`.

    Args:
        opening: the entries at the head: system messages of the thread, or the one given with the call (position -1).
        fixed_tokens: tokens of what is added to the call besides tools (passages).
        correction: tokens to add, learnt from reported usage.
        summary: the thread's summary in use, for a policy that summarizes.
    """
    reader = TurnReader(written_results="" if dialect(provider).tools else WRITTEN_RESULT)
    tool_tokens = count_tools(list(tools), counter) if tools else 0
    desk = Desk(
        source=source,
        wire=Wire(dialect(provider), model, source.begin),
        count=partial(count_message, count=counter),
        reader=reader,
        fixed_tokens=fixed_tokens + tool_tokens,
        correction=correction,
        window=window,
        pinned=frozenset(pins),
        summary=summary,
        question=question or "",
    )
    desk.log.singles.update((e.position, "says nothing") for e in opening if is_blank(e.message))
    opening = tuple(e for e in opening if not is_blank(e.message))
    draft = Draft(opening, Pulled(reader.newest_first(source.newest_first())), desk, source.begin)
    if pins:
        draft = draft.anchored(desk.turns_at(sorted(desk.pinned)))
    draft = _run(policy, draft)
    turns = draft.in_order()
    entries = desk.wire.assemble(draft.opening, turns)
    _verify(entries, desk, turns)
    desk.log.singles.update(reader.findings.left_out)
    facts = _manifest(draft, turns, entries, tool_tokens, fixed_tokens)
    manifest = Manifest(
        policy=name_of(policy),
        provider=provider,
        counter=counter.name,
        model=model,
        system=system,
        question=question,
        passages=list(passages),
        retrieved=retrieved,
        **facts,
    )
    context = Context(entries, manifest, form)
    context.policy = policy
    return context


def _run(policy: Policy, draft: Draft) -> Draft:
    """The draft through the policy; a function that gives a plain list of messages is taken at its word."""
    stages = stages_of(policy)
    recall = next((stage for stage in stages if isinstance(stage, Recall)), None)
    if recall is not None:
        others = Pipeline(tuple(stage for stage in stages if not isinstance(stage, Recall)))
        return recalled(recall, draft, partial(_run, others))
    for stage in stages:
        result = stage(draft)
        if not isinstance(result, Draft):
            result = _from_list(result, draft, name_of(stage))
        draft = result
    return draft


def _from_list(result: Any, draft: Draft, name: str) -> Draft:
    """A draft from the messages that a function chose; those that are the draft's own keep their positions."""
    if not isinstance(result, (list, tuple)):
        raise InvalidSpec(f"policy {name}: gave {type(result).__name__}, expected a Draft or a list of messages")
    if not result and next(iter(draft.turns), None) is not None:
        raise InvalidContext(f"policy {name} gave no messages: keep at least the newest user message")
    known = {id(e.message): e for t in draft.in_order() for e in t.entries} | {id(e.message): e for e in draft.opening}
    messages = [
        m if isinstance(m, Message) else one
        for m in result
        for one in ([m] if isinstance(m, Message) else formats.read([m]))
    ]
    at = draft.start
    entries = []
    for message in messages:
        found = known.get(id(message))
        at = found.position if found is not None else at
        entries.append(found or Entry(at, message, changed=name))
    head = 0
    while head < len(entries) and entries[head].message.role == "system":
        head += 1
    turns = list(TurnReader(draft.desk.reader.findings).newest_first(reversed(entries[head:])))
    draft.desk.log.cut(draft.start, draft.desk.source.end, name)
    return Draft(tuple(entries[:head]), tuple(turns), draft.desk, draft.start, draft.anchors)


def _verify(entries: Sequence[Entry], desk: Desk, turns: Sequence[Turn]) -> None:
    """Nothing leaves that the provider would refuse. An empty thread gives an empty context."""
    found = check_messages([e.message for e in entries], desk.wire.rules)
    found = [v for v in found if v.rule != "empty-list"] if not turns else found
    if found:
        raise InvalidContext(
            f"the context breaks {len(found)} rules of {desk.wire.rules.name}, first {found[0]}: a policy of your own "
            "may have split a tool call from its result; if not, please report this",
            violations=found,
        )


def _manifest(draft: Draft, turns: Sequence[Turn], entries: Sequence[Entry], tools: int, fixed: int) -> dict[str, Any]:
    desk = draft.desk
    kept = {e.position for t in turns for e in t.entries if not e.made} | {
        e.position for e in draft.opening if e.position >= 0
    }
    kept |= {e.position for t in turns for e in t.entries if e.made and e.changed != "made"}
    for result, call in desk.reader.findings.moved.items():
        if result not in kept:  # out with its call, by the rule that took the call out
            desk.log.singles.setdefault(result, desk.log.rule(call) or "result without its call")
    spans = ranges(sorted(kept))
    system = sum(desk.tokens(e) for e in entries if e.message.role == "system")
    told = sum(desk.tokens(e) for e in draft.opening if e.message.role != "system")
    body = sum(desk.tokens(e) for e in entries if e.message.role != "system") - told
    tokens = {
        "system": system,
        "summary": told,
        "tools": tools,
        "passages": fixed,
        "messages": body,
        "correction": desk.correction,
    }
    tokens = {name: n for name, n in tokens.items() if n}
    tokens["total"] = sum(tokens.values())
    if desk.log.budget is not None:
        tokens["budget"] = desk.log.budget
    return {
        "end": desk.source.end,
        "kept": spans,
        "left_out": left_out(spans, desk.source.end, desk.log),
        "changed": [(e.position, e.changed) for e in entries if e.changed and e.changed != "made" and e.position >= 0],
        "made": sum(e.made and e.position != PLACE for e in entries),
        "summary": desk.log.summary,
        "recalled": [(position, round(score, 3)) for position, score in desk.log.recalled],
        "tokens": tokens,
    }
