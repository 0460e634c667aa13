"""Every table and column of the two schemas, for what copies rows as they are.

A test compares this list with `sqlite/schema.sql` and `postgres/schema.sql`: a table or column that is added there and
not named here fails it, so that no copy can forget one.

Rows are carried as tuples: the key that the table begins with, the columns of `key`, and then the others. A seal that
statements of SQLite make (`seal`) is no column: it is compared where it is read, and made anew where it is written,
since PostgreSQL has none there. One that both engines hold is a column like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from novelo.stores.tables.rows import over


class Table(NamedTuple):
    """One table: `by` is the key that it is split by, `key` what tells its rows apart below that.

    Attributes:
        seal: what a seal of SQLite's says it is of, and the columns that it covers, in their order.
        only: which rows belong to the contents, as a condition; "" is all. The others are a database's own.
        ranged: whether `by` is the key of a thread or a collection; else the table is small, and read as a whole.
    """

    name: str
    by: str
    key: tuple[str, ...]
    rest: tuple[str, ...] = ()
    seal: tuple[str, tuple[str, ...]] | None = None
    ranged: bool = True
    only: str = ""

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns, in the order of a row."""
        return (self.by, *self.key, *self.rest)

    def where(self, after: str, upto: str) -> str:
        """The condition for rows of keys in (after, upto], or all that belong to the contents."""
        said = [f"{self.by} > {after} AND {self.by} <= {upto}"] if self.ranged else []
        said += [self.only] if self.only else []
        return f"WHERE {' AND '.join(said)}" if said else ""

    @property
    def lead(self) -> int:
        """How many columns tell a row from all others."""
        return 1 + len(self.key)

    def sealed(self, row: Sequence[Any]) -> bytes:
        """The seal of a row."""
        assert self.seal is not None
        at = {name: place for place, name in enumerate(self.columns)}
        what, names = self.seal
        return over(what, *(row[at[name]] for name in names))


def _table(name: str, by: str, key: str, rest: str = "", seal: str = "", over: str = "") -> Table:
    """One of the list below; texts of names, `over` also what a seal covers where that is not all in order."""
    made = Table(name, by, tuple(key.split()), tuple(rest.split()))
    return made._replace(seal=(seal, tuple(over.split()) or made.columns)) if seal else made


# All that belongs to a thread. `threads` comes last: a thread is there when all of it is.
THREAD = (
    _table("entries", "thread", "position", "turn role tokens running created id body seal"),
    _table(
        "turns", "thread", "first", "number last status epoch created key request manifest draft",
        "turn", "thread first number last status epoch created key request",
    ),
    _table(
        "calls", "thread", "number",
        "turn purpose model input output cache_read cache_write reasoning latency_ms first_token_ms estimated created"
        " cost prices spent_tokens spent_cost raw seal",
    ),
    _table("pins", "thread", "position", seal="pin"),
    _table("hidden", "thread", "start", "stop", "hidden"),
    _table("summaries", "thread", "version", "upto body"),
    _table("work", "thread", "kind", "due generation tries holder lease_until spec error"),
    _table("checkpoints", "thread", "ns number", "id parent start stop run expires body", "checkpoint"),
    _table("checkpoint_writes", "thread", "ns number task", "path body", "checkpoint writes"),
    _table("checkpoint_values", "thread", "number", "hash type body entry", "checkpoint value"),
    _table("search", "thread", "position", "words"),
    _table("vectors", "thread", "model position", "vector"),
    _table("retention", "thread", "", "dropped expires"),
    _table(
        "threads", "thread", "",
        "owner thread_id head turns opening running epoch holder lease_until lease_s open_turn status title tags"
        " metadata state content_version parent fork_at hidden pinned asked summary created updated",
        "thread",
        "thread head turns opening running epoch status content_version parent fork_at hidden pinned asked summary"
        " created",
    ),
)  # fmt: skip
# All that belongs to a collection of documents.
COLLECTION = (
    _table("sources", "collection", "source", "path hash title chunks tokens bytes updated", "source"),
    _table(
        "chunks", "collection", "number", "source place body heads words",
        "chunk", "collection number source place body",
    ),
    _table("chunk_vectors", "collection", "chunk", "vector"),
    _table(
        "collections", "collection", "",
        "number owner name sources chunks vectors words model size put dropped created updated", "collection",
    ),
)  # fmt: skip
# What belongs to all, and is small.
WHOLE = tuple(
    table._replace(ranged=False)
    for table in (
        _table("audit", "number", "", "at who action scope counts why chain"),
        _table("marks", "name", "", "number")._replace(only="name = 'acts'"),
        _table("holds", "scope", "", "since reason owner", "hold"),
        _table("spent", "owner", "hour", "last tokens cost"),
    )
)

# What a copy takes over of the table meta, where it is there.
META = ("secret", "vault", "vault ledger", "encrypted")

TABLES = {table.name: table for table in (*THREAD, *COLLECTION, *WHOLE)}
# What one engine has besides, and why it is not carried as rows.
OWN = {
    "sqlite": {
        "meta": "see META; the rest is this file's own",
        "indexed": "numbers of threads in the search index of this file; made anew",
        "search": "fts5; read and written by hand",
        "search_words": "a view of the search index",
        "search_new": "rows on their way into the search index; read with it",
        "chunk_words": "fts5; the columns heads and words of chunks",
        "chunk_terms": "a view of chunk_words",
    },
    "postgres": {"meta": "as in SQLite"},
}
OWN_COLUMNS = {
    "sqlite": {("chunk_vectors", "number"): "made anew: in each engine it is unique in another range"},
    "postgres": {
        ("chunk_vectors", "number"): "as in SQLite",
        ("chunks", "lexemes"): "made from heads and words",
        ("collections", "last"): "made from the highest numbers",
    },
}
ELSEWHERE = {
    "sqlite": {("chunks", "heads"), ("chunks", "words")},
    "postgres": set(),
}  # columns that another table holds
