"""A PostgreSQL database of LangGraph's `PostgresSaver` or `AsyncPostgresSaver`, read in one read-only transaction.

There a checkpoint is a JSON value with its small values inside; the others stand in a table of their own under channel
and version.
"""

from __future__ import annotations

from typing import Any, cast

from novelo.errors import ImportFailed, MissingExtra

try:
    from novelo.importers._langgraph import GraphSource, Name, State, Written
except ImportError as missing:
    raise MissingExtra("checkpoints need LangGraph: pip install 'novelo[langgraph]'") from missing
try:
    import psycopg
except ImportError as missing:
    raise MissingExtra("PostgreSQL needs psycopg: pip install 'novelo[postgres]'") from missing

_TABLES = {"checkpoints", "checkpoint_blobs", "checkpoint_writes"}


class PostgresCheckpoints(GraphSource):
    """The checkpoints of a database."""

    kind = "langgraph-postgres"

    def __init__(self, path: str) -> None:
        super().__init__("the database")  # its address may hold a password
        try:
            self.db = psycopg.connect(path, connect_timeout=10)
        except psycopg.Error as error:
            raise ImportFailed(f"the database cannot be reached: {str(error).splitlines()[0]}") from error
        self.db.read_only = True
        self.db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        # Only PostgresSaver has blobs, and the other tables beside them: a schema that is named like the user, as ours
        # may be, stands before it in the search path, with `checkpoints` of its own.
        self._schema = ""
        found = self._rows(
            "SELECT relnamespace, relnamespace::regnamespace::text FROM pg_class"
            " WHERE relname = 'checkpoint_blobs' AND pg_table_is_visible(oid)"
        )
        space, name = found[0] if found else (0, "")
        self._schema = f"{name}.".replace("%", "%%")
        there = {row[0] for row in self._rows("SELECT relname FROM pg_class WHERE relnamespace = %s", space)}
        if not there >= _TABLES:
            self.close()
            missing = sorted(_TABLES - there)[0]
            raise ImportFailed(f"the database is none of LangGraph's PostgresSaver: it has no table {missing!r}")
        columns = self._rows(
            "SELECT attname FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid"
            " WHERE c.relnamespace = %s AND c.relname = 'checkpoint_writes'",
            space,
        )
        self._path = "task_path" if ("task_path",) in columns else "''"  # since 2025

    def _rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        statement = statement.replace("FROM checkpoint", f"FROM {self._schema}checkpoint")
        try:
            found: list[tuple[Any, ...]] = self.db.execute(cast(Any, statement), values).fetchall()
        except psycopg.Error as error:
            self.db.rollback()
            raise ImportFailed(f"the database gave an error: {type(error).__name__}") from error
        return found

    def ids(self) -> list[str]:
        """Threads, the oldest first."""
        return [r[0] for r in self._rows("SELECT thread_id FROM checkpoints GROUP BY 1 ORDER BY min(checkpoint_id)")]

    def names(self, thread: str) -> list[tuple[Name, str | None]]:
        """The checkpoints of a thread."""
        found = self._rows(
            "SELECT checkpoint_ns, checkpoint_id, parent_checkpoint_id FROM checkpoints WHERE thread_id = %s"
            ' ORDER BY checkpoint_id COLLATE "C", checkpoint_ns',
            thread,
        )
        return [(Name(ns, name), parent or None) for ns, name, parent in found]

    def state(self, thread: str, name: Name) -> State:
        """A checkpoint."""
        of = "WHERE thread_id = %s AND checkpoint_ns = %s"
        where = (thread, *name)
        statement = f"SELECT checkpoint, metadata FROM checkpoints {of} AND checkpoint_id = %s"  # noqa: S608
        rest, metadata = self._rows(statement, *where)[0]
        versions = rest.get("channel_versions") if isinstance(rest, dict) else None
        if not isinstance(versions, dict) or not isinstance(metadata, dict):
            raise ImportFailed("it is no checkpoint")
        values = rest.pop("channel_values", None) or {}
        for channel, version, kind, body in self._rows(
            f"SELECT channel, version, type, blob FROM checkpoint_blobs {of}"  # noqa: S608
            " AND (channel, version) IN (SELECT * FROM unnest(%s::text[], %s::text[]))",
            *where[:2],
            list(versions),
            [str(version) for version in versions.values()],
        ):
            if kind != "empty" and str(versions.get(channel)) == version:
                values[channel] = self.value(kind, body or b"", main=not name.ns)
        return State(rest, values, metadata)

    def written(self, thread: str) -> dict[Name, list[Written]]:
        """What tasks wrote."""
        out: dict[Name, dict[tuple[str, str], Written]] = {}
        for ns, name, task, path, at, channel, kind, body in self._rows(
            f"SELECT checkpoint_ns, checkpoint_id, task_id, {self._path}, idx, channel, type, blob"  # noqa: S608
            " FROM checkpoint_writes WHERE thread_id = %s ORDER BY checkpoint_id, task_id, idx",
            thread,
        ):
            try:
                value = self.value(kind or "", body or b"")
            except ImportFailed as error:
                self.lose(thread, f"what task {task} wrote to {channel!r} at checkpoint {name}: {error}")
                continue
            tasks = out.setdefault(Name(ns, name), {})
            tasks.setdefault((task, path), Written(task, path, [])).items.append((at, channel, value))
        return {name: list(tasks.values()) for name, tasks in out.items()}

    def close(self) -> None:
        """Close the connection."""
        self.db.close()


def load(path: str) -> PostgresCheckpoints:
    """The checkpoints of a database.

    Args:
        path: its address, postgresql://user@host/name.
    """
    return PostgresCheckpoints(path)
