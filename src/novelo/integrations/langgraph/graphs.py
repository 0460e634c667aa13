"""Two graphs to begin with: a chat with a window over its history, and a conversation over documents.

    create_chat_graph                  START -> respond -> END
    create_conversational_rag_graph    START -> condense -> retrieve -> answer -> END

Their state keeps every message; what the model is sent is composed from it for each call. Compiled with a checkpointer
a thread goes on where it stopped: invoke with the new message only, and `{"configurable": {"thread_id": "..."}}`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import RunnableConfig, RunnableLambda
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph

from novelo import formats
from novelo._again import chats, says_more
from novelo.asking import ModelReply, ModelRequest
from novelo.carrying import found_nothing
from novelo.context import compose
from novelo.errors import InvalidMessage, InvalidSpec
from novelo.integrations.langgraph._chat import Asked, provider_of, read_answer
from novelo.models.base import adrive, drive
from novelo.retrieval import Answered, Condensed, Passage, answer, condense, fuse, passage_of, passages_text

CHAT_PROMPT = ChatPromptTemplate([MessagesPlaceholder("history"), ("human", "{question}")])
Searched = list[list[Passage]]


class RagState(MessagesState):
    """Messages, and of the newest question: how it was searched for, and what was found."""

    standalone_question: str
    queries: list[str]
    docs: list[dict[str, Any]]


def create_chat_graph(
    llm: Any,
    max_messages: int = 10,
    checkpointer: Any = None,
    *,
    system: str = "",
    prompt: ChatPromptTemplate | None = None,
    policy: Any = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A chat whose model sees at most so many earlier messages, whole turns of them, and the question.

    Args:
        llm: a chat model.
        max_messages: how many messages before the question go along; the state keeps all.
        checkpointer: where threads are kept, such as `NoveloSaver`.
        system: a system prompt.
        prompt: instead of it, a prompt with `MessagesPlaceholder("history")` and `{question}`.
        policy: instead of `max_messages`, any policy.
    """
    chosen = _policy(max_messages, policy)
    wanted = _prompt(system, prompt, {"history", "question"})
    provider = provider_of(llm)

    def composed(state: dict[str, Any]) -> list[BaseMessage]:
        _, asked = _split(state["messages"])
        context = compose(state["messages"], chosen, provider).messages("langchain")
        return _filled(wanted, context[:-1], context[-1] if isinstance(context[-1], HumanMessage) else asked)

    def respond(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [_message(llm.invoke(composed(state), config))]}

    async def arespond(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        return {"messages": [_message(await llm.ainvoke(composed(state), config))]}

    builder = StateGraph(MessagesState)
    builder.add_node("respond", _node(respond, arespond))
    builder.add_edge(START, "respond")
    builder.add_edge("respond", END)
    return builder.compile(checkpointer=checkpointer, name="chat")


def create_conversational_rag_graph(
    llm: Any,
    retriever: Any,
    max_messages: int = 10,
    checkpointer: Any = None,
    *,
    system: str = "",
    prompt: ChatPromptTemplate | None = None,
    policy: Any = None,
    condenser: Any = None,
    min_score: float | None = None,
    language: str | None = None,
    alone: Callable[[str], bool] | None = None,
) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A conversation over documents: the first message costs one model call, a follow-up two.

    The standalone question and the user's own words are both searched. The answer is made from the original question,
    the history and the passages, which go with this call and into no message; where nothing supports an answer no model
    is asked. "explique melhor", "e o segundo?" are answered from the passages of the turn before, and greetings and
    thanks without any. `standalone_question` in the state is that of the newest question, and `docs` are those of the
    newest one that was searched: look at them first when an answer is wrong. The answer's
    `response_metadata["sources"]` names what it cites.

    Args:
        llm: a chat model.
        retriever: any retriever of LangChain, or a function from a question to documents.
        max_messages: how many messages before the question go along; the state keeps all.
        checkpointer: where threads are kept, such as `NoveloSaver`.
        system: a system prompt; the instructions for the answer stand behind it.
        prompt: instead of both, a prompt with `{context}`, `MessagesPlaceholder("history")` and `{question}`.
        policy: instead of `max_messages`, any policy.
        condenser: who rewrites questions; None is the chat model itself.
        min_score: passages with a lower `support` in their metadata, or `score` where they have none, are left out;
            None is what a `NoveloRetriever` holds for enough, for questions that are searched as they were asked.
        language: to answer in, as "pt"; else that of the question.
        alone: tells questions that need no rewriting, such as `novelo.retrieval.stands_alone`.
    """
    chosen, provider = _policy(max_messages, policy), provider_of(llm)
    wanted = None if prompt is None else _prompt("", prompt, {"history", "question", "context"})
    rewriter = llm if condenser is None else condenser

    def condensing(state: dict[str, Any]) -> Any:
        history, asked = _split(state["messages"])
        if again(state) or small_talk(state):  # nothing is rewritten, nothing searched
            return condense(history, asked, policy=chosen, ask=False)
        return condense(history, asked, policy=chosen, alone=alone)

    def condensed(found: Condensed) -> dict[str, Any]:
        return {"standalone_question": found.standalone, "queries": list(found.queries)}

    def condense_node(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        return condensed(drive(condensing(state), Asked(rewriter, config)))

    async def acondense_node(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        return condensed(await adrive(condensing(state), Asked(rewriter, config)))

    def queries(state: dict[str, Any]) -> list[str]:
        asked = _split(state["messages"])[1].text.strip()
        given = state.get("queries") or [state.get("standalone_question") or asked, asked]
        return list(dict.fromkeys(q for q in given if q))

    def again(state: dict[str, Any]) -> bool:
        history, asked = _split(state["messages"])
        return says_more(asked.text) and (bool(state.get("docs")) or found_nothing(formats.read(history)))

    def small_talk(state: dict[str, Any]) -> bool:
        return chats(_split(state["messages"])[1].text.strip())

    def retrieve(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        if again(state) or small_talk(state):
            return {"docs": state.get("docs") or []}
        return {"docs": fuse([_passages(_search(retriever, q, config)) for q in queries(state)])}

    async def aretrieve(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        if again(state) or small_talk(state):
            return {"docs": state.get("docs") or []}
        return {"docs": fuse([_passages(await _asearch(retriever, q, config)) for q in queries(state)])}

    def least(state: dict[str, Any]) -> float | None:
        """A follow-up's support is told by former turns too, which one text does not carry: then the model decides."""
        own: float | None = getattr(retriever, "enough", None) if len(queries(state)) == 1 else None
        return own if min_score is None else min_score

    def answering(state: dict[str, Any]) -> Any:
        history, asked = _split(state["messages"])
        found = [] if small_talk(state) else state.get("docs") or []
        return answer(
            history, asked, found, standalone=state.get("standalone_question"), policy=chosen,
            system=system, min_score=least(state), language=language, provider=provider,
        )  # fmt: skip

    def answered(found: Answered) -> dict[str, Any]:
        said = AIMessage(found.text) if found.reply is None else _message(found.reply.raw)
        sources = [{k: v for k, v in p.items() if k != "text"} for p in found.sources]
        return {
            "messages": [said.model_copy(update={"response_metadata": {**said.response_metadata, "sources": sources}})]
        }

    def answer_node(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        return answered(drive(answering(state), _Prompted(llm, config, wanted, state["messages"])))

    async def aanswer_node(state: dict[str, Any], config: RunnableConfig) -> dict[str, Any]:
        return answered(await adrive(answering(state), _Prompted(llm, config, wanted, state["messages"])))

    builder = StateGraph(RagState)
    builder.add_node("condense", _node(condense_node, acondense_node))
    builder.add_node("retrieve", _node(retrieve, aretrieve))
    builder.add_node("answer", _node(answer_node, aanswer_node))
    builder.add_edge(START, "condense")
    builder.add_edge("condense", "retrieve")
    builder.add_edge("retrieve", "answer")
    builder.add_edge("answer", END)
    return builder.compile(checkpointer=checkpointer, name="conversational_rag")


class _Prompted(Asked):
    """The chat model asked for an answer, through a prompt of the application's where there is one."""

    def __init__(self, llm: Any, config: RunnableConfig, prompt: ChatPromptTemplate | None, talk: Any) -> None:
        super().__init__(llm, config)
        self._prompt, self._asked = prompt, _split(talk)[1]

    def complete(self, request: ModelRequest) -> ModelReply:
        """The whole answer."""
        if self._prompt is None:
            return super().complete(request)
        return read_answer(self._llm.invoke(self._messages(request), self._config))

    async def acomplete(self, request: ModelRequest) -> ModelReply:
        """The same, awaited."""
        if self._prompt is None:
            return await super().acomplete(request)
        return read_answer(await self._llm.ainvoke(self._messages(request), self._config))

    def _messages(self, request: ModelRequest) -> list[BaseMessage]:
        assert self._prompt is not None
        context = passages_text(request.passages)
        return _filled(self._prompt, list(request.messages)[1:-1], self._asked, context=context)


# ------------------------------------------------------------------------------------------------ parts
def _node(sync: Callable[..., Any], awaited: Callable[..., Any]) -> RunnableLambda[Any, Any]:
    return RunnableLambda(sync, awaited)


def _policy(max_messages: int, policy: Any) -> Any:
    if policy is not None:
        return policy
    if isinstance(max_messages, bool) or not isinstance(max_messages, int) or max_messages < 0:
        raise InvalidSpec(f"max_messages={max_messages!r}: expected a number of messages, 0 or more")
    return f"window:{max_messages + 1}messages"  # the question is counted too


def _prompt(system: str, prompt: ChatPromptTemplate | None, places: set[str]) -> ChatPromptTemplate:
    if prompt is None:
        return (
            ChatPromptTemplate([("system", "{system}"), *CHAT_PROMPT.messages]).partial(system=system)
            if system
            else CHAT_PROMPT
        )
    missing = places - set(prompt.input_variables) - set(prompt.optional_variables)
    if missing:
        raise InvalidSpec(f"prompt: no place for {', '.join(sorted(missing))}")
    return prompt


def _filled(prompt: ChatPromptTemplate, history: Sequence[Any], asked: BaseMessage, **more: str) -> list[BaseMessage]:
    """The prompt with its places filled; a question of more than text keeps its parts."""
    text = asked.text
    messages = prompt.format_messages(history=list(history), question=text, **more)
    if not isinstance(asked.content, str):
        at = max((i for i, m in enumerate(messages) if isinstance(m, HumanMessage)), default=None)
        if at is not None:
            around = str(messages[at].content)
            before, _, behind = around.rpartition(text) if text else (around, "", "")
            blocks = [{"type": "text", "text": t} for t in (before,) if t.strip()]
            tail = [{"type": "text", "text": t} for t in (behind,) if t.strip()]
            messages[at] = HumanMessage([*blocks, *asked.content, *tail])
    return messages


def _split(messages: Sequence[BaseMessage]) -> tuple[list[BaseMessage], BaseMessage]:
    """The history, and the question behind it.

    Raises:
        InvalidMessage: the newest message is not the user's.
    """
    if not messages or not isinstance(messages[-1], HumanMessage):
        found = messages[-1].type if messages else "none"
        raise InvalidMessage(f"the newest message is {found}: a turn of this graph begins with the user's question")
    return list(messages[:-1]), messages[-1]


def _message(answer: Any) -> AIMessage:
    raw = read_answer(answer).raw
    assert isinstance(raw, AIMessage)
    return raw


def _search(retriever: Any, query: str, config: RunnableConfig) -> Any:
    return retriever.invoke(query, config) if hasattr(retriever, "invoke") else retriever(query)


async def _asearch(retriever: Any, query: str, config: RunnableConfig) -> Any:
    if hasattr(retriever, "ainvoke"):
        return await retriever.ainvoke(query, config)
    found = retriever(query)
    return await found if inspect.isawaitable(found) else found


def _passages(documents: Any) -> list[Passage]:
    """Documents as passages: data only, so that any checkpointer can keep them."""
    return [passage_of(found) for found in documents]
