"""`logs.db` of the command line tool llm, in both of its forms.

Up to 0.31 a row of `responses` is one call: prompt, system prompt, answer, and in tables beside it attachments,
fragments, tool calls and the results that came with the prompt. Since 0.32 a conversation is a `thread` whose newest
message names its parent and so on, each with its parts; `turns` tell which call wrote it. A file may hold both.

Attachments that are a path stay where they are: a word stands for them.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from novelo.importers.base import Conversation, SQLiteSource, moment
from novelo.messages import Audio, File, Image, Message, Other, Part, Reasoning, Text, ToolCall, Usage

_FORM = {"form": "llm"}
_ROLES = ("system", "user", "assistant", "tool")


class Logs(SQLiteSource):
    """The conversations of a file."""

    kind = "llm"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self._has = self.tables()
        self._new = {"messages", "parts", "threads", "turns"} <= set(self._has)
        if not self._new:
            self.expect("llm", conversations="id name", responses="id model prompt system response conversation_id")
        self._old = "responses" in self._has

    def ids(self) -> list[str]:
        """Conversations; their ids begin with their time."""
        found = self.rows("SELECT id FROM threads") if self._new else []
        if self._old:
            found += self.rows("SELECT DISTINCT coalesce(conversation_id, id) FROM responses")
        return sorted({str(row[0]) for row in found})

    def read(self, name: str) -> Conversation:
        """One conversation."""
        out = Conversation(name)
        for table in ("threads", "conversations"):
            for (title,) in self.rows(f"SELECT name FROM {table} WHERE id = ?", (name,)) if table in self._has else ():  # noqa: S608
                out.title = out.title or title or ""
        chain, turns = self._chain(name)
        told = {row["tip_message_hash"] for row in turns}
        before = [row for row in self._responses(name) if row["id"] not in {turn["id"] for turn in turns}]
        if before and not any(role == "assistant" and tip not in told for tip, role in chain):
            for row in before:  # a call that went on from them sent them again, and so has them in its chain
                self._response(out, row)
        self._said(out, chain, turns)
        return out

    def _dicts(self, table: str, where: str, *values: Any) -> list[dict[str, Any]]:
        if table not in self._has:
            return []
        names = self._has[table]
        columns = ", ".join(f'"{name}"' for name in names)
        found = self.rows(f"SELECT {columns} FROM {table} WHERE {where}", values)  # noqa: S608
        return [dict(zip(names, row, strict=True)) for row in found]

    # ------------------------------------------------------------------------------------------ up to 0.31
    def _responses(self, name: str) -> list[dict[str, Any]]:
        return self._dicts("responses", "coalesce(conversation_id, id) = ? ORDER BY id", name)

    def _response(self, out: Conversation, row: dict[str, Any]) -> None:
        """One call: what was new in it, and the answer."""
        at, when = row["id"], moment(row.get("datetime_utc"))
        system = "\n\n".join(t for t in (*self._fragments("system_fragments", at), row["system"] or "") if t.strip())
        last = next((m.text for m in reversed(out.messages) if m.role == "system"), None)
        if system and system != last:
            out.add(Message("system", system), f"{at}/system", when)
        for i, result in enumerate(self._dicts("tool_results", "response_id = ? ORDER BY id", at)):
            meta = {"status": "error"} if result.get("exception") else {}
            call = result["tool_call_id"] or _unnamed(out, result["name"])
            told = Message("tool", result["output"] or "", tool_call_id=call, name=result["name"], meta=meta)
            out.add(told, f"{at}/tool{i}", when)
            for link in self._dicts("tool_results_attachments", "tool_result_id = ?", result["id"]):
                self.lose(out.id, f"attachment {link['attachment_id']} of the result of call {call}")
        prompt = "\n".join([*self._fragments("prompt_fragments", at), *([row["prompt"]] if row["prompt"] else [])])
        links = self._dicts("prompt_attachments", 'response_id = ? ORDER BY "order"', at)
        media = [part for link in links if (part := self._attachment(out, link["attachment_id"]))]
        if prompt or media:
            content: Any = (*((Text(text=prompt),) if prompt else ()), *media) if media else prompt
            out.add(Message("user", content), f"{at}/prompt", when)
        calls = [
            ToolCall(call["tool_call_id"] or f"{at}-{call['name']}", call["name"] or "", call["arguments"] or "{}")
            for call in self._dicts("tool_calls", "response_id = ? ORDER BY id", at)
        ]
        thoughts = row.get("reasoning")
        said: Any = row["response"] or None
        meta = _by(row)
        if thoughts:
            said = (Reasoning(text=thoughts), *((Text(text=said),) if said else ()))
            meta |= _FORM
        if said or calls:
            out.add(Message("assistant", said, tuple(calls), usage=_usage(row), meta=meta), f"{at}/response", when)
        else:
            self.lose(out.id, f"the answer {at} is empty")
        self._settings(out, row)

    def _settings(self, out: Conversation, row: dict[str, Any]) -> None:
        """How a call was made is no part of what was said."""
        given = {"options": row.get("options_json") not in (None, "", "{}"), "a schema": row.get("schema_id")}
        if told := " and ".join(what for what, there in given.items() if there):
            self.lose(out.id, f"{told} of call {row['id']}")

    def _fragments(self, table: str, response: str) -> list[str]:
        if table not in self._has:
            return []
        found = self.rows(
            f"SELECT f.content FROM {table} AS used JOIN fragments AS f ON f.id = used.fragment_id"  # noqa: S608
            ' WHERE used.response_id = ? ORDER BY used."order"',
            (response,),
        )
        return [row[0] or "" for row in found]

    # ------------------------------------------------------------------------------------------ since 0.32
    def _chain(self, name: str) -> tuple[list[tuple[str, str]], list[dict[str, Any]]]:
        """The messages of a thread, oldest first, by hash and role; and the calls that wrote them."""
        if not self._new:
            return [], []
        turns = self._dicts("turns", "thread_id = ? ORDER BY id", name)
        tips = [row[0] for row in self.rows("SELECT tip_message_hash FROM threads WHERE id = ?", (name,))]
        at = next((tip for tip in tips if tip), turns[-1]["tip_message_hash"] if turns else None)
        way: list[tuple[str, str]] = []
        seen: set[str] = set()
        while at is not None and at not in seen:
            seen.add(at)
            row = next(iter(self.rows("SELECT role, parent_hash FROM messages WHERE hash = ?", (at,))), None)
            if row is None:
                self.lose(name, f"message {at} is not in the file, nor what came before it")
                break
            way.append((at, row[0]))
            at = row[1]
        if others := [turn["id"] for turn in turns if turn["tip_message_hash"] not in seen]:
            self.lose(name, f"{len(others)} calls are not on the main line: {', '.join(others)[:400]}")
        return way[::-1], turns

    def _said(self, out: Conversation, chain: list[tuple[str, str]], turns: list[dict[str, Any]]) -> None:
        wrote = {turn["tip_message_hash"]: turn for turn in turns}
        when: float | None = None
        times: list[float | None] = []
        for tip, _ in reversed(chain):  # what was sent has the time of the call that sent it
            if tip in wrote:
                when = moment(wrote[tip]["datetime_utc"])
            times.append(when)
        for turn in turns:
            self._settings(out, turn)
        for (tip, role), at in zip(chain, reversed(times), strict=True):
            if role not in _ROLES:
                self.lose(out.id, f"message {tip} has the role {role!r}")
                continue
            for i, message in enumerate(self._message(out, tip, role, wrote.get(tip))):
                out.add(message, f"{tip}/{i}" if i else tip, at)

    def _message(self, out: Conversation, tip: str, role: Any, turn: dict[str, Any] | None) -> list[Message]:
        """A message of the file as ours; one with several results becomes several."""
        parts: list[Part] = []
        calls: list[ToolCall] = []
        results: list[Message] = []
        for row in self._dicts("parts", "message_hash = ? ORDER BY position", tip):
            try:
                payload = json.loads(row["payload"]) if row["payload"] else {}
                text = row["text"] if row["text"] is not None else self._text(payload)
            except (ValueError, TypeError, AttributeError, RecursionError):
                self.lose(out.id, f"part {row['position']} of message {tip} cannot be read")
                continue
            kind, name, call = row["type"], str(payload.get("name") or ""), payload.get("tool_call_id")
            if kind == "text":
                parts.append(Text(text=text))
            elif kind == "reasoning":
                parts.append(Reasoning(text=text))
            elif kind == "tool_call" and not payload.get("server_executed"):
                arguments = json.dumps(payload.get("arguments") or {}, ensure_ascii=False)
                calls.append(ToolCall(call or f"{tip}-{len(calls)}", name, arguments))
            elif kind == "tool_result" and not payload.get("server_executed"):
                meta = {"status": "error"} if payload.get("exception") else {}
                call = call or _unnamed(out, name)
                results.append(
                    Message("tool", str(payload.get("output") or ""), tool_call_id=call, name=name, meta=meta)
                )
                for link in payload.get("attachments") or ():
                    self.lose(out.id, f"attachment {link.get('id')} of the result of call {call}")
            elif kind == "attachment":
                found = self._attachment(out, (payload.get("attachment") or {}).get("id"))
                parts += [found] if found else []
            else:
                parts.append(Other(value={**payload, "type": kind}))
        if role == "tool":
            if parts:
                self.lose(out.id, f"{len(parts)} parts beside the results of message {tip}")
            return results
        only = parts[0] if len(parts) == 1 else None
        content: Any = only.text if isinstance(only, Text) else tuple(parts) or None
        meta = {} if turn is None else _by(turn)
        if any(isinstance(part, (Reasoning, Other)) for part in parts):
            meta |= _FORM
        usage = None if turn is None else _usage(turn)
        return [*results, *([Message(role, content, tuple(calls), usage=usage, meta=meta)] if content or calls else [])]

    def _text(self, payload: dict[str, Any]) -> str:
        """A text that borrows from fragments."""
        out = [str(payload.get("text") or "")]
        for piece in payload.get("text_ref") or ():
            found = self.rows("SELECT content FROM fragments WHERE id = ?", (piece.get("fragment"),))
            out.append(str(piece["literal"]) if "literal" in piece else found[0][0] if found else "")
        return "".join(out)

    def _attachment(self, out: Conversation, name: Any) -> Part | None:
        row = next(iter(self._dicts("attachments", "id = ?", name)), None)
        if row is None:
            self.lose(out.id, f"attachment {name} is not in the file")
            return None
        kind = row["type"] or "application/octet-stream"
        given: dict[str, Any] = {"media_type": kind}
        if isinstance(row["content"], bytes):
            given["data"] = base64.b64encode(row["content"]).decode()
        elif row["url"]:
            given["url"] = row["url"]
        else:
            self.lose(out.id, f"attachment {name} ({kind}) is a path: the file stays where it is")
            return Text(text=f"[{kind.partition('/')[0]}]")
        made = {"image": Image, "audio": Audio}.get(kind.partition("/")[0], File)
        return made(**given)  # type: ignore[no-any-return]


def _unnamed(out: Conversation, name: Any) -> str:
    """The newest call of a tool that no result has answered: older versions wrote no ids."""
    answered = {message.tool_call_id for message in out.messages if message.role == "tool"}
    calls = [call for message in out.messages for call in message.tool_calls if call.id not in answered]
    return next((call.id for call in calls if call.name == name), "")


def _by(row: dict[str, Any]) -> dict[str, Any]:
    model = row.get("resolved_model") or row.get("model")
    return {"model": model} if model else {}


def _usage(row: dict[str, Any]) -> Usage | None:
    told = row.get("input_tokens"), row.get("output_tokens")
    if not any(isinstance(count, int) and count > 0 for count in told):
        return None
    read, wrote = (count if isinstance(count, int) else 0 for count in told)
    return Usage(read, wrote)


def load(path: str) -> Logs:
    """The conversations of a file."""
    return Logs(path)
