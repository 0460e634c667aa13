"""Sessions of the OpenAI Agents SDK's `SQLiteSession`: a table of sessions, and one of items as JSON.

Items that belong together (a thought and the call it led to) become one message, as `NoveloSession` keeps them, and are
given back as the same items. The tables may have names of their own; they are known by their columns. Of an
`AdvancedSQLiteSession` the branch `main` is read. Encrypted items stay where they are.
"""

from __future__ import annotations

import json
from typing import Any

from novelo.errors import ImportFailed, InvalidMessage
from novelo.formats.responses import read_items
from novelo.importers.base import Conversation, SQLiteSource, moment

_ITEMS = {"id", "session_id", "message_data", "created_at"}


class AgentSessions(SQLiteSource):
    """The sessions of a file."""

    kind = "openai-agents"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        there = self.tables()
        found = sorted(name for name, columns in there.items() if set(columns) >= _ITEMS)
        if not found:
            self.close()
            raise ImportFailed(
                f"{path}: is no file of the OpenAI Agents SDK: no table has the columns session_id and message_data",
                file=path,
            )
        self._table = '"' + ("agent_messages" if "agent_messages" in found else found[0]).replace('"', '""') + '"'
        self._branched = {"message_id", "branch_id"} <= set(there.get("message_structure", ()))

    def ids(self) -> list[str]:
        """Sessions that have items, the oldest first."""
        return [row[0] for row in self.rows(f"SELECT session_id FROM {self._table} GROUP BY 1 ORDER BY min(id)")]  # noqa: S608

    def read(self, name: str) -> Conversation:
        """One session."""
        out = Conversation(name)
        rows = self._rows(name)
        messages, places = read_items([item for _, _, item in rows])
        first: dict[int, tuple[int, Any]] = {}
        last: dict[int, int] = {}
        for (row, created, _), place in zip(rows, places, strict=True):
            if isinstance(place, InvalidMessage):
                self.lose(name, f"item {row} is none that we know: {place}")
            else:
                first.setdefault(place, (row, created))
                last[place] = row
        for place, message in enumerate(messages):
            row, created = first[place]
            out.add(message, f"{row}-{last[place]}", moment(created))
        return out

    def _rows(self, name: str) -> list[tuple[int, Any, dict[str, Any]]]:
        """The items of a session: number, time, and what it says; what cannot be read is lost."""
        out = []
        others = self._others(name)
        for row, data, created in self.rows(
            f"SELECT id, message_data, created_at FROM {self._table} WHERE session_id = ? ORDER BY id",  # noqa: S608
            (name,),
        ):
            if row in others:
                continue
            try:
                item = json.loads(data)
            except (TypeError, ValueError, RecursionError):
                self.lose(name, f"item {row} is no JSON")
                continue
            if not isinstance(item, dict):
                self.lose(name, f"item {row} is {type(item).__name__}, expected an object")
            elif "__enc__" in item:
                self.lose(name, f"item {row} is encrypted")
            else:
                out.append((row, created, item))
        return out

    def _others(self, name: str) -> set[int]:
        """Items of other branches than the main one."""
        if not self._branched:
            return set()
        found: dict[int, set[str]] = {}
        for row, branch in self.rows(
            "SELECT message_id, branch_id FROM message_structure WHERE session_id = ?", (name,)
        ):
            found.setdefault(row, set()).add(str(branch))
        out = {row for row, branches in found.items() if "main" not in branches}
        if out:
            branches = sorted({branch for row in out for branch in found[row]})
            self.lose(
                name, f"{len(out)} items of other branches ({', '.join(branches)[:200]}) are not on the main line"
            )
        return out


def load(path: str) -> AgentSessions:
    """The sessions of a file."""
    return AgentSessions(path)
