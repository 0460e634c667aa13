"""Which form a list has, seen from what only one form has. All of a list is looked through: no guess."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import repeat
from operator import contains
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
_PLAIN_CONTENT = frozenset((str, type(None)))
_ITEM_BLOCKS = frozenset(("input_text", "output_text", "input_image", "input_file", "summary_text"))
_SHARED = ("image", "thinking")
_ANTHROPIC = frozenset(
    (
        *(
            "tool_use",
            "tool_result",
            "image",
            "thinking",
            "redacted_thinking",
            "document",
            "search_result",
            "container_upload",
        ),
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
    """The form of a list: one pass over n messages, 0.1 µs for each that is plain.

    Tool results and `tool_calls` of chat dicts outweigh blocks that also Anthropic has: those are then hidden calls or
    thoughts inside a chat list. An empty list is "openai".
    """
    if _all_plain(messages):
        return "openai"
    odd = [
        m
        for m in messages
        if m.__class__ is not dict or "type" in m or m.get("content").__class__ not in _PLAIN_CONTENT
    ]
    items: set[str] = set()
    kinds: set[str] = set()
    for message in odd:
        if not isinstance(message, Mapping):
            form = _of_object(message, items, kinds)
            if form is not None:
                return form
            continue
        kind = message.get("type")
        if kind == "message" or (kind.__class__ is str and kind in ITEMS and "role" not in message):
            items.add(kind)
        content = message.get("content")
        if content.__class__ is list or isinstance(content, tuple):
            for block in content:
                _note(block, kinds)
    return _by_kinds(items, kinds, messages)


def _all_plain(messages: Sequence[Any]) -> bool:
    """Whether all are dicts of role and text; told without a step of Python for each, since long lists are plain."""
    if set(map(type, messages)) - {dict} or any(map(contains, messages, repeat("type"))):
        return False
    return set(map(type, map(dict.get, messages, repeat("content")))) <= set(_PLAIN_CONTENT)


def _by_kinds(items: set[str], kinds: set[str], messages: Iterable[Any]) -> Form:
    if not items.isdisjoint(ITEMS) or not kinds.isdisjoint(_ITEM_BLOCKS):
        return "responses"
    if not kinds.isdisjoint(_ANTHROPIC):
        return "openai" if any(map(_is_chat, messages)) else "anthropic"
    return "responses" if "message" in items and "text" not in kinds else "openai"


def _is_chat(message: Any) -> bool:
    if not isinstance(message, Mapping):
        return False
    return message.get("role") in ("tool", "function") or bool(message.get("tool_calls"))


def _note(block: Any, kinds: set[str]) -> None:
    """The kind of a block, if it tells the form; pictures and thoughts of several forms differ only inside."""
    if block.__class__ is dict:
        kind = block.get("type")
        if kind in _SHARED and not _is_anthropic(kind, block):
            return
    else:
        kind = block.get("type") if isinstance(block, Mapping) else getattr(block, "type", None)
    if kind.__class__ is str:
        kinds.add(kind)


def _is_anthropic(kind: Any, block: Mapping[str, Any]) -> bool:
    return "source" in block if kind == "image" else isinstance(block.get("thinking"), str)


def _of_object(message: Any, items: set[str], kinds: set[str]) -> Form | None:
    """The form that an object tells at once: our own and LangChain's; an SDK's answer is noted like its mapping."""
    if isinstance(message, Message):
        return "message"
    if isinstance(message, (str, tuple)):  # what LangChain takes for a message: a text, or (role, text)
        return "langchain"
    kind, content = getattr(message, "type", None), getattr(message, "content", None)
    if not isinstance(kind, str):
        return None
    if kind != "message" and kind not in ITEMS:
        return "langchain" if hasattr(message, "content") else None
    items.add(kind)
    for block in content if isinstance(content, (list, tuple)) else ():
        _note(block, kinds)
    return None
