"""What real providers refuse, and in which words: the judge of our tests.

Written apart from `novelo.protocol`, from the same sources, so that a mistake there does not hide here. `refusal` takes
a list of OpenAI Chat dicts, `anthropic_refusal` a body of the Messages API; both give the first thing that is wrong, or
None. Rules that only we ask for are not here: what a provider lets pass, passes. The public issue in which a wording
stands is named beside it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from novelo.testing._refusals import Refusal

Chat = Mapping[str, Any]
ROLES = ("system", "assistant", "user", "tool", "developer")
PARTS = ("text", "image_url", "input_audio", "refusal", "audio", "file")
_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]+")


def refusal(messages: Sequence[Chat], dialect: str) -> Refusal | None:
    """The first thing that a provider finds wrong with a request's messages; None if it takes them."""
    return next(_RULES[dialect](messages), None)


def anthropic_refusal(body: Mapping[str, Any]) -> Refusal | None:
    """The same for a body of the Messages API."""
    return next(_anthropic_body(body), None)


# ------------------------------------------------------------------------------------------------ reading
def calls_of(message: Chat) -> list[Any]:
    """The calls of an assistant message."""
    found = message.get("tool_calls") if message.get("role") == "assistant" else None
    return list(found) if isinstance(found, (list, tuple)) else []


def text_of(content: Any) -> str:
    """All text of a content, its blocks joined."""
    if isinstance(content, (list, tuple)):
        return "".join(str(b.get("text") or "") for b in content if isinstance(b, Mapping))
    return content if isinstance(content, str) else ""


def blocks_of(content: Any) -> list[Any]:
    """A content as blocks; a text is one block."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return list(content) if isinstance(content, (list, tuple)) else []


def _absent(content: Any) -> bool:
    return content is None or (isinstance(content, (list, tuple)) and not content)


def _id(call: Any) -> Any:
    return call.get("id") if isinstance(call, Mapping) else None


def _is_system(message: Chat) -> bool:
    return message.get("role") in ("system", "developer")


def _each(messages: Sequence[Chat], *rules: Callable[[int, Chat], Iterator[Refusal]]) -> Iterator[Refusal]:
    return (found for at, message in enumerate(messages) for rule in rules for found in rule(at, message))


# ------------------------------------------------------------------------------------------------ one message
def _role(at: int, message: Chat) -> Iterator[Refusal]:
    if message.get("role") not in ROLES:
        supported = "'system', 'assistant', 'user', 'function', 'tool', and 'developer'"
        text = f"Invalid value: '{message.get('role')}'. Supported values are: {supported}."
        yield Refusal(text, code="invalid_value", param=f"messages[{at}].role")


def _shape(at: int, message: Chat) -> Iterator[Refusal]:
    """Calls have ids and names, results name their call."""
    missing: list[str] = []
    for place, call in enumerate(message.get("tool_calls") or ()):
        function = call.get("function") if isinstance(call, Mapping) else None
        if message.get("role") != "assistant" or not _id(call):
            missing.append(f"messages[{at}].tool_calls[{place}].id")
        elif not isinstance(function, Mapping) or not function.get("name"):
            missing.append(f"messages[{at}].tool_calls[{place}].function.name")
    if message.get("role") == "tool" and not message.get("tool_call_id"):
        missing.append(f"messages[{at}].tool_call_id")
    for field in missing:
        yield Refusal(f"Missing required parameter: '{field}'.", code="missing_required_parameter", param=field)


def _content(at: int, message: Chat) -> Iterator[Refusal]:
    content, param = message.get("content"), f"messages[{at}].content"
    if _absent(content) and not calls_of(message):
        found = "null" if content is None else "an empty array"
        yield Refusal(f"Invalid value for 'content': expected a string, got {found}.", param=param)


def _parts(at: int, message: Chat) -> Iterator[Refusal]:
    content = message.get("content")
    for place, block in enumerate(content if isinstance(content, (list, tuple)) else ()):
        kind = block.get("type") if isinstance(block, Mapping) else None
        if kind not in PARTS:
            text = f"Invalid value: '{kind}'. Supported values are: {', '.join(map(repr, PARTS))}."
            yield Refusal(text, code="invalid_value", param=f"messages[{at}].content[{place}].type")


# ------------------------------------------------------------------------------------------------ OpenAI
def _openai(messages: Sequence[Chat]) -> Iterator[Refusal]:
    if all(map(_is_system, messages)):
        text = "Expected an array with minimum length 1, but got an empty array instead."
        yield Refusal(f"Invalid 'messages': empty array. {text}", code="empty_array", param="messages")
    yield from _each(messages, _role, _shape, _content, _parts)
    yield from _pairs(messages)


def _pairs(messages: Sequence[Chat]) -> Iterator[Refusal]:
    """Results answer the message that directly precedes their block: llama_index#10493, genkit-plugins#225."""
    waiting: list[Any] = []
    open_at = -1
    for at, message in enumerate([*messages, {"role": "end"}]):
        if message.get("role") == "tool":
            if message.get("tool_call_id") not in waiting:
                text = "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'."
                yield Refusal(f"Invalid parameter: {text}", param=f"messages.[{at}].role")
            else:
                waiting.remove(message.get("tool_call_id"))
            continue
        if waiting:
            text = "must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids"
            names = ", ".join(map(str, waiting))
            text = f"An assistant message with 'tool_calls' {text} did not have response messages: {names}"
            yield Refusal(text, param=f"messages.[{open_at}].role")
        waiting, open_at = list(dict.fromkeys(map(_id, calls_of(message)))), at


# ------------------------------------------------------------------------------------------------ Anthropic
def to_anthropic(messages: Sequence[Chat]) -> dict[str, Any]:
    """Chat dicts as a body of the Messages API, word for word: nothing is mended, so what is wrong stays wrong."""
    head = list(itertools.takewhile(_is_system, messages))
    turns: list[dict[str, Any]] = []
    for message in messages[len(head) :]:
        role, content, calls = message.get("role"), message.get("content"), calls_of(message)
        if role == "tool":
            result = {"type": "tool_result", "tool_use_id": message.get("tool_call_id"), "content": content}
            turns.append({"role": "user", "content": [result]})
            continue
        blocks = [b for b in blocks_of(content) if b.get("type") != "tool_use"]  # a call stands in `tool_calls`
        if calls and isinstance(content, str) and not content.strip():
            blocks = []  # an empty text beside calls is left out by every adapter
        for call in calls:
            function = call.get("function") if isinstance(call, Mapping) else None
            name = function.get("name") if isinstance(function, Mapping) else None
            blocks.append({"type": "tool_use", "id": _id(call), "name": name, "input": {}})
        turns.append({"role": role, "content": blocks})
    return {"system": [b for m in head for b in blocks_of(m.get("content"))], "messages": turns}


def _anthropic(messages: Sequence[Chat]) -> Iterator[Refusal]:
    yield from _each(messages, _shape)
    for message in itertools.takewhile(_is_system, messages):
        if not text_of(message.get("content")).strip():
            yield Refusal("system: text content blocks must be non-empty")
    yield from _anthropic_body(to_anthropic(messages))


def _anthropic_body(body: Mapping[str, Any]) -> Iterator[Refusal]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        yield Refusal("messages: at least one message is required")
        return
    for at, message in enumerate(messages):
        if message.get("role") == "system":
            text = 'The Messages API accepts a top-level `system` parameter, not "system" as an input message role.'
            yield Refusal(f'messages: Unexpected role "system". {text}')
        elif message.get("role") not in ("user", "assistant"):
            yield Refusal(f"messages.{at}.role: Input should be 'user' or 'assistant'")
        yield from _anthropic_text(at, message, last=at == len(messages) - 1)
    if messages[0].get("role") != "user":  # lobehub#1601, langchain4j#940
        yield Refusal('messages: first message must use the "user" role')
    turns = _merged(messages)
    for at in range(len(turns)):
        yield from _anthropic_calls(turns, at)
        yield from _anthropic_results(turns, at)
    if messages[-1].get("role") == "assistant":
        text = "The conversation must end with a user message."
        yield Refusal(f"This model does not support assistant message prefill. {text}")


def _anthropic_text(at: int, message: Chat, last: bool) -> Iterator[Refusal]:
    content = message.get("content")
    texts = [b for b in blocks_of(content) if isinstance(b, Mapping) and b.get("type") == "text"]
    if _absent(content) or (isinstance(content, str) and not content.strip()):
        if not (last and message.get("role") == "assistant"):
            text = "all messages must have non-empty content except for the optional final assistant message"
            yield Refusal(f"messages.{at}: {text}")
    elif any(not text_of([block]).strip() for block in texts):
        yield Refusal("messages: text content blocks must be non-empty")


def _merged(messages: Sequence[Chat]) -> list[list[Any]]:
    """The blocks of each turn: neighbours of one role are one turn, as the provider reads them."""
    groups = itertools.groupby(messages, key=lambda m: m.get("role"))
    return [[b for m in group for b in blocks_of(m.get("content"))] for _, group in groups]


def _ids(blocks: Iterable[Any], kind: str, field: str) -> list[Any]:
    return [b.get(field) for b in blocks if isinstance(b, Mapping) and b.get("type") == kind]


def _anthropic_calls(turns: Sequence[list[Any]], at: int) -> Iterator[Refusal]:
    """The calls of a turn, and the results at the head of the next one."""
    calls = _ids(turns[at], "tool_use", "id")
    after = turns[at + 1] if at + 1 < len(turns) else []
    answered = _ids(after, "tool_result", "tool_use_id")
    for place, one in enumerate(calls):
        if not isinstance(one, str) or not _LEGAL_ID.fullmatch(one):  # opencode#1279
            text = "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            yield Refusal(f"messages.{at}.content.{place}.{text}")
    if len(set(map(str, calls))) < len(calls):  # litellm#23510
        yield Refusal(f"messages.{at}.content.1: `tool_use` ids must be unique")
    if missing := [c for c in calls if c not in answered]:  # Codewhale#4329
        text = "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
        text = f"without `tool_result` blocks immediately after: {', '.join(map(str, missing))}. {text}"
        yield Refusal(f"messages.{at}: `tool_use` ids were found {text}")
    kinds = [b.get("type") for b in after[: len(answered)] if isinstance(b, Mapping)]
    if calls and kinds != ["tool_result"] * len(answered):  # tester-mcp-client#12
        text = "Messages following tool_use blocks must begin with a matching number of tool_result blocks"
        yield Refusal(f"messages: {text}")


def _anthropic_results(turns: Sequence[list[Any]], at: int) -> Iterator[Refusal]:
    """The results of a turn answer calls of the turn before, each once."""
    before = _ids(turns[at - 1], "tool_use", "id") if at else []
    if any(
        b.get("type") == "tool_result" and "content" in b and b["content"] is None
        for b in turns[at]
        if isinstance(b, Mapping)
    ):
        yield Refusal(f"messages.{at}.content.0.tool_result.content: Input should be a valid string or list")
    seen: list[Any] = []
    for one in _ids(turns[at], "tool_result", "tool_use_id"):
        if one not in before:
            text = "Each `tool_result` block must have a corresponding `tool_use` block in the previous message."
            text = f"unexpected `tool_use_id` found in `tool_result` blocks: {one}. {text}"
            yield Refusal(f"messages.{at}.content.{len(seen)}: {text}")
        elif one in seen:
            text = "each tool_use must have a single result. Found multiple `tool_result` blocks with id"
            yield Refusal(f"messages.{at}.content.{len(seen)}: {text}: {one}")
        seen.append(one)


# ------------------------------------------------------------------------------------------------ Gemini
def _google(text: str) -> Refusal:
    return Refusal(text, kind="INVALID_ARGUMENT")


def _gemini(messages: Sequence[Chat]) -> Iterator[Refusal]:
    yield from _each(messages, _shape, _content)
    body = list(itertools.dropwhile(_is_system, messages))
    if not body:
        yield _google("* GenerateContentRequest.contents: contents is not specified")
        return
    if any(m.get("role") not in ("user", "assistant", "tool") for m in body):  # litellm#22046
        yield _google("Please use a valid role: user, model.")
    yield from _gemini_turns(body)
    if body[-1].get("role") == "assistant" and not calls_of(body[-1]):  # one-api#836
        yield _google("Please ensure that multiturn requests ends with a user role or a function response.")


def _gemini_turns(body: Sequence[Chat]) -> Iterator[Refusal]:
    """Turns of model, user and function responses; neighbours of one kind are one turn."""
    turns: list[tuple[str, list[Any]]] = [("", []), *_gemini_read(body), ("", [])]
    for before, (kind, ids), after in zip(turns, turns[1:], turns[2:], strict=False):
        if kind == "model" and ids:
            if not before[0]:  # gemini-cli#26486
                text = "function call turn comes immediately after a user turn or after a function response turn"
                yield _google(f"Please ensure that {text}.")
            if after[0] != "function" or sorted(map(str, after[1])) != sorted(map(str, ids)):  # eino-ext#571
                text = "is equal to the number of function call parts of the function call turn"
                yield _google(f"Please ensure that the number of function response parts {text}.")
        if kind == "function" and not (before[0] == "model" and before[1]):  # lobehub#7298
            yield _google("Please ensure that function response turn comes immediately after a function call turn.")


def _gemini_read(body: Sequence[Chat]) -> list[tuple[str, list[Any]]]:
    turns: list[tuple[str, list[Any]]] = []
    for message in body:
        kind = {"assistant": "model", "tool": "function"}.get(str(message.get("role")), "user")
        if not turns or turns[-1][0] != kind:
            turns.append((kind, []))
        turns[-1][1].extend([message.get("tool_call_id")] if kind == "function" else map(_id, calls_of(message)))
    return turns


# ------------------------------------------------------------------------------------------------ Mistral
_MAY_FOLLOW = {
    "system": ("system", "user", "assistant"),
    "user": ("system", "user", "assistant"),
    "assistant": ("assistant", "user", "tool"),
    "tool": ("tool", "assistant"),
}


def _order(text: str) -> Refusal:
    return Refusal(text, kind="invalid_request_message_order", code="3230")


def _mistral(messages: Sequence[Chat]) -> Iterator[Refusal]:
    yield from _each(messages, _role, _shape, _content)
    if all(map(_is_system, messages)):
        yield _order("Conversation must have at least one message")
        return
    roles = ["system" if _is_system(m) else str(m.get("role")) for m in messages]
    if roles[0] == "tool":
        yield _order("Unexpected role 'tool' at the start of the conversation")
    for before, role in itertools.pairwise(roles):
        if role not in _MAY_FOLLOW.get(before, ()):  # pipecat-flows#178, crush#279
            yield _order(f"Unexpected role '{role}' after role '{before}'")
    if calls_of(messages[0]) or not _as_many_results(messages):  # client-ts#106, camel#1467
        yield _order("Not the same number of function calls and responses")
    if any("role 'tool' must be" in found.text for found in _pairs(messages)):
        yield _order("Unexpected tool call id in tool results")
    if roles[-1] == "assistant" and not calls_of(messages[-1]) and not messages[-1].get("prefix"):
        text = "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant"
        yield _order(text)


def _as_many_results(messages: Sequence[Chat]) -> bool:
    """Whether each message's calls have as many results before the next assistant or user message."""
    open_calls = 0
    for message in messages:
        if message.get("role") == "tool":
            open_calls -= 1
        elif message.get("role") in ("assistant", "user"):
            if open_calls:
                return False
            open_calls = len(calls_of(message))
    return open_calls == 0


# ------------------------------------------------------------------------------------------------ templates
def _strict(messages: Sequence[Chat]) -> Iterator[Refusal]:
    """Templates of Gemma, Llama 2, Mistral v1: one system message, then user and assistant in turn; no tools."""
    yield from _each(messages, _role, _shape)
    if any(m.get("role") == "tool" or calls_of(m) for m in messages):
        yield Refusal("Jinja Exception: This template does not support tool messages")
    said = [m.get("role") for m in messages]
    said = said[1:] if messages and _is_system(messages[0]) else said
    if not said or any(role != ("user", "assistant")[at % 2] for at, role in enumerate(said)):
        yield Refusal("Jinja Exception: Conversation roles must alternate user/assistant/user/assistant/...")


_RULES: dict[str, Callable[[Sequence[Chat]], Iterator[Refusal]]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "mistral": _mistral,
    "strict": _strict,
}
