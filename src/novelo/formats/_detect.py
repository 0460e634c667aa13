"""Which form a list has, seen from what only one form has. Every list of 10,000 chat dicts is looked through: no guess."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from novelo.messages import Message

Form = Literal["openai", "anthropic", "responses", "langchain", "message"]

ITEMS = frozenset(
    (
        *(
            "function_call",
            "function_call_output",
            "reasoning",
            "item_reference",
            "computer_call",
            "computer_call_output",
        ),
        *("web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call", "local_shell_call"),
        *("local_shell_call_output", "shell_call", "shell_call_output", "apply_patch_call", "apply_patch_call_output"),
        *("mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "mcp_call", "compaction"),
        *("custom_tool_call", "custom_tool_call_output", "tool_search_call", "tool_search_output"),
    )
)
_PLAIN_CONTENT = (str, type(None))
_ITEM_BLOCKS = frozenset(("input_text", "output_text", "input_image", "input_file", "summary_text"))
_ANTHROPIC = frozenset(
    (
        *("tool_use", "tool_result", "thinking", "redacted_thinking", "document", "search_result", "container_upload"),
        *("server_tool_use", "web_search_tool_result", "web_fetch_tool_result", "code_execution_tool_result"),
        *(
            "bash_code_execution_tool_result",
            "text_editor_code_execution_tool_result",
            "mcp_tool_use",
            "mcp_tool_result",
        ),
    )
)


def detect(messages: Sequence[Any]) -> Form:
    """The form of a list: a pass over n messages, 0.1 µs for each that is plain.

    Tool results and `tool_calls` of chat dicts outweigh blocks that also Anthropic has: they are then hidden calls or
    thoughts inside a chat list. An empty list is "openai".
    """
    odd = [
        m
        for m in messages
        if m.__class__ is not dict or "type" in m or m.get("content").__class__ not in _PLAIN_CONTENT
    ]
    if not odd:
        return "openai"
    found: set[Form] = set()
    for message in odd:
        form = _of_mapping(message) if isinstance(message, Mapping) else _of_object(message)
        if form == "message" or form == "langchain":
            return form
        if form is not None:
            found.add(form)
    if "responses" in found:
        return "responses"
    if "anthropic" in found and not any(map(_is_chat, messages)):
        return "anthropic"
    return "openai"


def _is_chat(message: Any) -> bool:
    return isinstance(message, Mapping) and (
        message.get("role") in ("tool", "function") or bool(message.get("tool_calls"))
    )


def _of_object(message: Any) -> Form | None:
    if isinstance(message, Message):
        return "message"
    kind = getattr(message, "type", None)
    if not isinstance(kind, str):
        return None
    if kind in ITEMS:
        return "responses"
    if kind == "message":
        return _of_blocks(getattr(message, "content", None)) or "responses"
    return "langchain" if hasattr(message, "content") else None


def _of_mapping(message: Mapping[str, Any]) -> Form | None:
    kind = message.get("type")
    if isinstance(kind, str) and kind in ITEMS and "role" not in message:
        return "responses"
    blocks = _of_blocks(message.get("content"))
    if kind == "message" and blocks is None:
        return "responses"
    return blocks


def _of_blocks(content: Any) -> Form | None:
    if not isinstance(content, (list, tuple)):
        return None
    kinds = {kind for kind in map(_kind, content) if isinstance(kind, str)}
    if not kinds.isdisjoint(_ITEM_BLOCKS):
        return "responses"
    if not kinds.isdisjoint(_ANTHROPIC) or ("image" in kinds and _has_source(content)):
        return "anthropic"
    return None


def _kind(block: Any) -> Any:
    return block.get("type") if isinstance(block, Mapping) else getattr(block, "type", None)


def _has_source(content: Iterable[Any]) -> bool:
    return any(isinstance(b, Mapping) and b.get("type") == "image" and "source" in b for b in content)
