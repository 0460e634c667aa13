"""A file of LangGraph's `SqliteSaver` or `AsyncSqliteSaver`: a table of checkpoints, and one of what tasks wrote."""

from __future__ import annotations

import json
from typing import Any

from novelo.errors import ImportFailed, MissingExtra
from novelo.importers.base import SQLiteSource

try:
    from novelo.importers._langgraph import GraphSource, Name, State, Written
except ImportError as missing:
    raise MissingExtra("checkpoints need LangGraph: pip install 'novelo[langgraph]'") from missing


class SqliteCheckpoints(GraphSource, SQLiteSource):
    """The checkpoints of a file."""

    kind = "langgraph-sqlite"

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.expect(
            "LangGraph's SqliteSaver",
            checkpoints="thread_id checkpoint_ns checkpoint_id parent_checkpoint_id type checkpoint metadata",
            writes="thread_id checkpoint_ns checkpoint_id task_id idx channel type value",
        )
        self._path = "task_path" if "task_path" in self.tables()["writes"] else "''"  # since 2025

    def ids(self) -> list[str]:
        """Threads, the oldest first."""
        return [r[0] for r in self.rows("SELECT thread_id FROM checkpoints GROUP BY 1 ORDER BY min(checkpoint_id)")]

    def names(self, thread: str) -> list[tuple[Name, str | None]]:
        """The checkpoints of a thread."""
        found = self.rows(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints WHERE thread_id = ?"
            " ORDER BY checkpoint_id, checkpoint_ns",
            (thread,),
        )
        return [(Name(ns, name), parent or None) for ns, name, parent in found]

    def state(self, thread: str, name: Name) -> State:
        """A checkpoint."""
        kind, body, metadata = self.rows(
            "SELECT type, checkpoint, metadata FROM checkpoints"
            " WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
            (thread, *name),
        )[0]
        rest, values = self.fields(*_typed(kind, body), main=not name.ns)
        try:
            told = {} if metadata is None else json.loads(metadata)
        except (ValueError, TypeError, RecursionError):
            told = None
        if not isinstance(told, dict):
            raise ImportFailed("its metadata cannot be read")
        return State(rest, values, told)

    def written(self, thread: str) -> dict[Name, list[Written]]:
        """What tasks wrote."""
        out: dict[Name, dict[tuple[str, str], Written]] = {}
        for ns, name, task, path, at, channel, kind, body in self.rows(
            f"SELECT checkpoint_ns, checkpoint_id, task_id, {self._path}, idx, channel, type, value FROM writes"  # noqa: S608
            " WHERE thread_id = ? ORDER BY checkpoint_id, task_id, idx",
            (thread,),
        ):
            try:
                value = self.value(*_typed(kind, body))
            except ImportFailed as error:
                self.lose(thread, f"what task {task} wrote to {channel!r} at checkpoint {name}: {error}")
                continue
            tasks = out.setdefault(Name(ns, name), {})
            tasks.setdefault((task, path), Written(task, path, [])).items.append((at, channel, value))
        return {name: list(tasks.values()) for name, tasks in out.items()}


def _typed(kind: Any, body: Any) -> tuple[str, bytes]:
    if not isinstance(kind, str) or not isinstance(body, (bytes, type(None))):
        raise ImportFailed("a value without its type")
    return kind, body or b""


def load(path: str) -> SqliteCheckpoints:
    """The checkpoints of a file."""
    return SqliteCheckpoints(path)
