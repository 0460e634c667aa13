"""The answer of an open turn from documents: condense, retrieve, answer, each step in the thread's record.

    with thread.turn("E se eu tiver pago com Pix?") as turn:
        found = turn.answer(model, documents)     # condense, search, answer; durable on return
    print(found.text, [place_of(p) for p in found.sources])

The logic is a generator of steps (`ModelRequest`, `Search`, `Answer`), driven by `answered` or, awaited, by `aio.py`.
It reads the thread through its policy, so what that masks reaches no rewriting call, no retriever and no manifest. The
rewriting call is in the ledger with its purpose; the manifest keeps what was searched, how that came about, the
passages with their scores and what was too weak. Passages stand in that one call and in no message.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from novelo._again import chats, reminds, says_more
from novelo.asking import Flow, ModelReply, ModelRequest, T
from novelo.carrying import found_nothing, unread_first
from novelo.compaction import LANGUAGES
from novelo.context import Retrieved
from novelo.context.redact import Redact
from novelo.context.spec import Pipeline, parse, stages_of
from novelo.documents import Documents
from novelo.errors import ContextTooSmall, InvalidSpec
from novelo.messages import Message
from novelo.passages import Passage, cited, fuse, passage_of
from novelo.retrieval import (
    ANSWER,
    HISTORY,
    NOT_FOUND,
    Answered,
    Condensed,
    condense,
    evidence,
    sources,
    speaks_of,
    spoken,
    stands_alone,
    supporting,
)

if TYPE_CHECKING:
    from novelo.stores.base import TurnRow
    from novelo.turn import LiveTurn

LIMIT = 5  # passages
READ_BEFORE = 4  # more of them that are looked at, since the user may have read some in the answers before
LOOKED_BACK = 5  # turns in which the passages of a former answer are looked for
SHOWN_REJECTED = 3  # of what was found and too weak, in the manifest


class Search(msgspec.Struct, frozen=True):
    """A step: what to ask a retriever, and how many passages it may give at most.

    Attributes:
        queries: texts with their weights, whose scores a collection of ours adds up; any other retriever is asked for
            each text, and its rankings are fused.
    """

    queries: Sequence[tuple[str, float]]
    limit: int


class Answer(msgspec.Struct, frozen=True):
    """A step: the turn is to ask the model with these options of `turn.ask`, and to store what it says."""

    options: dict[str, Any]


class Options(msgspec.Struct, frozen=True):
    """How a turn is answered; see `LiveTurn.answer`."""

    limit: int = LIMIT
    min_score: float | None = None
    policy: Any = None
    system: Any = None
    language: str | None = None
    prompt: str = ""
    weighted: bool = False
    collection: str = ""
    ask: bool = True
    alone: Callable[[str], bool] | None = stands_alone
    on_query: Callable[[Retrieved], None] | None = None
    more: dict[str, Any] = {}


def rewriter(model: Any, condenser: Any, askable: Callable[[Any], Any]) -> Any:
    """Who rewrites questions: the model itself where nobody else is named; None for nobody.

    Raises:
        InvalidSpec: it is none that can be asked.
    """
    if condenser is False:
        return None
    found = askable(model if condenser is None else condenser)
    return found if getattr(found, "rewrites", True) else None


def chosen(
    retriever: Any, condenser: Any, on_query: Callable[[Retrieved], None] | None, given: dict[str, Any]
) -> Options:
    """The options of a call, what belongs to `turn.messages` apart; a retriever may know its own least score.

    Args:
        condenser: as `rewriter` gives it; None where no question is rewritten.
    Raises:
        InvalidSpec: a limit below 1.
    """
    given = dict(given)
    own = {name: given.pop(name) for name in list(given) if name in Options.__struct_fields__}
    if own.get("min_score") is None:
        own["min_score"] = getattr(retriever, "min_score", None)
    if own.get("limit", LIMIT) < 1:
        raise InvalidSpec(f"limit={own['limit']}: expected 1 or more")
    own.setdefault("ask", condenser is not None)
    ours = isinstance(retriever, Documents)
    return Options(**own, weighted=ours, collection=retriever.name if ours else "", on_query=on_query, more=given)


Steps = Generator[ModelRequest | Search | Answer, Any, Answered]


# ------------------------------------------------------------------------------------------------ the flow
def answering(turn: LiveTurn, options: Options) -> Steps:
    """Condense, retrieve, answer, for an open turn."""
    if turn.replayed:
        return _replayed(turn)
    thread = turn.thread
    policy = thread.policy if options.policy is None else thread.memory.parsed(options.policy)
    asked = turn.question
    said = _masked(asked.text.strip(), policy)
    system, history = _history(turn, options, policy)
    again = says_more(said)
    lost = again and found_nothing(history)  # what was not found cannot be explained, nor be what came before it
    former = former_passages(turn) if not lost and (again or reminds(said)) else []
    condensed, retrieved, found = Condensed(said, said), Retrieved(decision="small talk"), list[Any]()
    if lost:
        retrieved = Retrieved(decision="nothing was found before")
    elif former and again:
        retrieved = Retrieved(decision="the passages of the turn before")
    elif said and not chats(said):
        condensed, retrieved = yield from _condensed(turn, history, said, options)
        answers = sum(m.role == "assistant" for m in history)
        found = yield Search(retrieved.queries, options.limit + min(READ_BEFORE, answers))
        found = unread_first(found, history, options.limit)
    kept, rejected = supporting(evidence(said, found, former)[: options.limit], options.min_score)
    language = spoken(said, history, options.language)
    nothing = NOT_FOUND.get(language or "", NOT_FOUND["en"])
    supported = not lost and (bool(kept) or not retrieved.queries or speaks_of(said, history))
    retrieved = msgspec.structs.replace(
        retrieved, rejected=[_named(p) for p in rejected[:SHOWN_REJECTED]], least=options.min_score, answered=supported,
        collection=options.collection,
    )  # fmt: skip
    if options.on_query is not None:
        options.on_query(retrieved)
    named = LANGUAGES.get(language or "", "the language of the question")
    told = (options.prompt or ANSWER).replace("{language}", named).replace("{nothing}", nothing)
    sent = {
        **options.more, "policy": policy, "system": f"{system}\n\n{told}" if system else told,
        "standalone": next((q for q in condensed.queries if q != said), None), "retrieved": retrieved,
    }  # fmt: skip
    if not supported:
        turn.messages(**sent)  # for the manifest
        turn.say(nothing)
        return Answered(nothing, False, context=turn.context, retrieved=retrieved)
    message = yield from _asked(kept, sent)
    context = turn.context
    kept = kept if context is None else context.manifest.passages
    used = sources(message.text, kept, nothing)
    return Answered(message.text, True, used, context, ModelReply(message), tuple(kept), retrieved)


def _condensed(
    turn: LiveTurn, history: list[Message], said: str, options: Options
) -> Generator[ModelRequest, ModelReply, tuple[Condensed, Retrieved]]:
    """What to search for, and how that came about."""
    flow = condense(
        history, said, policy="buffer", counter=turn.thread.memory.counter, alone=options.alone, ask=options.ask
    )
    made = yield from _metered(turn, flow)
    queries = list(made.weighted) if options.weighted else [(text, 1.0) for text in made.queries]
    return made, Retrieved(queries, made.decision)


def _metered(turn: LiveTurn, flow: Flow[T]) -> Flow[T]:
    """A flow whose calls come into the turn's ledger."""
    try:
        request = next(flow)
        while True:
            begun = time.monotonic()
            try:
                reply = yield request
            except Exception as error:
                request = flow.throw(error)
                continue
            turn.spent(request, reply, time.monotonic() - begun)
            request = flow.send(reply)
    except StopIteration as end:
        made: T = end.value
        return made
    finally:
        flow.close()


def _history(turn: LiveTurn, options: Options, policy: Any) -> tuple[str, list[Message]]:
    """The system prompt, and what was said before the question: as much as a rewriting model reads, masked."""
    masks = tuple(stage for stage in stages_of(policy) if isinstance(stage, Redact))
    read = Pipeline((parse(HISTORY), *masks))
    context = turn.thread.compose(policy=read, system=options.system, state=turn.now_state())
    entries = context.entries
    system = "\n\n".join(e.message.text for e in entries if e.message.role == "system")
    said = [e.message for e in entries if e.position < turn.position and e.message.role in ("user", "assistant")]
    return system, [m for m in said if m.text.strip()]


def _asked(passages: list[Passage], sent: dict[str, Any]) -> Generator[Answer, Message, Message]:
    """The model's answer, from as many passages, the best first, as a budget has room for."""
    for count in range(len(passages), 0, -1):
        try:
            return (yield Answer({**sent, "passages": passages[:count]}))
        except ContextTooSmall:  # nobody was asked; with fewer of them it may fit
            continue
    return (yield Answer({**sent, "passages": []}))


def _masked(text: str, policy: Any) -> str:
    """The question as the policy lets it go out."""
    for stage in stages_of(policy):
        if isinstance(stage, Redact) and stage.question:
            text = stage.text(text)
    return text


def _named(passage: Passage) -> dict[str, Any]:
    return {k: passage[k] for k in ("title", "section", "source", "score", "support") if k in passage}


# ------------------------------------------------------------------------------------------------ former turns
def former_passages(turn: LiveTurn) -> list[Passage]:
    """The passages of the newest answer from documents, those that it names; of a turn that can still be seen.

    A question for what was said before looks at them first; one such as "explique melhor" has all of them.
    """
    thread = turn.thread
    for row in _turns_before(turn):
        if row.status != "done":
            continue
        manifest = thread.memory.unpack_manifest(row.manifest)
        entries = thread.messages(after=row.first - 1, limit=row.last - row.first + 1, hidden=False)
        if manifest is None or not manifest.passages or not entries or entries[0].position != row.first:
            continue
        said = next((e.message.text for e in reversed(entries) if e.role == "assistant"), "")
        if reminds(turn.question.text) and not says_more(turn.question.text):
            return list(cited(said, manifest.passages))
        return manifest.passages
    return []


def _turns_before(turn: LiveTurn) -> Iterator[TurnRow]:
    """The newest turns before a question, newest first; where its thread is a fork, also those that it shares."""
    store = turn.thread.memory.store
    row, below, left = turn.thread.row, turn.position, LOOKED_BACK
    while row is not None and left > 0:
        for one in store.turns(row.key, left, below):
            if one.last < below:  # a fork may share a part of one
                left -= 1
                yield one
        below = min(below, row.fork_at)
        row = None if row.parent is None else store.thread(row.parent)


def _replayed(turn: LiveTurn) -> Answered:
    """The stored answer of a request that came twice."""
    text = turn.stored_reply or ""
    row = turn.begun_at.turn
    manifest = turn.thread.memory.unpack_manifest(row.manifest)
    kept = [] if manifest is None else manifest.passages
    retrieved = None if manifest is None else manifest.retrieved
    found = retrieved is None or retrieved.answered
    return Answered(text, found, cited(text, kept) if found else (), None, None, tuple(kept), retrieved)


# ------------------------------------------------------------------------------------------------ driving it
def answered(
    turn: LiveTurn, steps: Steps, model: Any, condenser: Any, retriever: Any, on_text: Callable[[str], None] | None
) -> Answered:
    """Run the steps to their end; an answer that no model gives now is told to `on_text` in one piece."""
    outcome: Any = None
    tell = on_text
    try:
        while not isinstance(step := advanced(steps, outcome), Answered):
            try:
                if isinstance(step, Search):
                    outcome = searched(retriever, step)
                elif isinstance(step, ModelRequest):
                    outcome = condenser.complete(step)
                else:
                    tell = None
                    outcome = turn.ask(model, on_text=on_text, **step.options)
            except Exception as error:
                outcome = error
        if tell is not None and step.text:
            tell(step.text)
        return step
    finally:
        steps.close()


def advanced(steps: Steps, outcome: Any) -> ModelRequest | Search | Answer | Answered:
    """The next step, after the outcome of the one before (an exception is raised where it was taken); or the end."""
    try:
        return steps.throw(outcome) if isinstance(outcome, Exception) else steps.send(outcome)
    except StopIteration as end:
        found: Answered = end.value
        return found


def searched(retriever: Any, step: Search) -> list[Passage]:
    """The passages of any retriever: a collection of ours, one with `search`, one of LangChain, or a function."""
    if isinstance(retriever, Documents):
        return retriever.search(list(step.queries), limit=step.limit)
    ask = asker(retriever, step.limit)
    return ranked([ask(query) for query in texts(step)], step.limit)


def ranked(rankings: Sequence[Iterable[Any] | None], limit: int) -> list[Passage]:
    """What was found for each query, as one ranking of passages; None is what a function gives that found nothing.

    Raises:
        InvalidSpec: a ranking is one text, or no list.
    """
    found = []
    for ranking in rankings:
        if isinstance(ranking, str | bytes | Mapping) or not (ranking is None or isinstance(ranking, Iterable)):
            raise InvalidSpec(
                f"what the retriever gave is of type {type(ranking).__name__}: expected a list of passages"
            )
        found.append([passage_of(one) for one in (() if ranking is None else ranking)])
    return found[0][:limit] if len(found) == 1 else fuse(found, limit)


def texts(step: Search) -> list[str]:
    """The queries for a retriever that takes one text at a time."""
    return list(dict.fromkeys(text for text, _ in step.queries))


def asker(retriever: Any, limit: int) -> Callable[[str], Any]:
    """How a retriever is asked for one query.

    Raises:
        InvalidSpec: it cannot be asked.
    """
    if hasattr(retriever, "search"):
        return lambda query: retriever.search(query, limit=limit)
    if hasattr(retriever, "invoke"):
        return lambda query: retriever.invoke(query)
    if callable(retriever):
        return lambda query: retriever(query)
    raise InvalidSpec(
        f"retriever {type(retriever).__name__}: expected a collection of documents, a retriever of LangChain, "
        "an object with search(question, limit), or a function from a question to passages"
    )
