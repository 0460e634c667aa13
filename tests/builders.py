"""Short ways to write message lists in tests."""

from __future__ import annotations

import json


def system(text):
    """A system message."""
    return {"role": "system", "content": text}


def user(content):
    """A user message."""
    return {"role": "user", "content": content}


def says(text):
    """An assistant's answer."""
    return {"role": "assistant", "content": text}


def calls(*ids, name="f", arguments="{}", text=None):
    """An assistant message with one tool call for each id."""
    made = [{"id": i, "type": "function", "function": {"name": name, "arguments": arguments}} for i in ids]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(call_id, text):
    """A tool result."""
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def roles(messages):
    """The roles of a list, one letter each: s, u, a, t."""
    return "".join(m["role"][0] for m in messages)


def texts(messages):
    """The contents of a list."""
    return [m["content"] for m in messages]


def long_talk(turns, start=0):
    """Plain exchanges, each recognisable."""
    return [m for k in range(start, start + turns) for m in (user(f"question {k}"), says(f"answer {k}"))]


def arguments_of(messages):
    """All tool arguments, decoded."""
    return [json.loads(c["function"]["arguments"]) for m in messages for c in m.get("tool_calls") or []]
