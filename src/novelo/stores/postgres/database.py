"""Connections to one PostgreSQL database: how they are opened, lent out, looked at, and how their errors become ours.

No connection is held while a model thinks, and nothing is kept in a session: no named statements, no temporary tables,
no settings but those of one transaction. So a transaction pooler may stand in between.

A transaction that writes a thread locks the thread's row first; who comes later waits, and then sees what was written
(READ COMMITTED). What the server refuses because two came at once is tried again (`store.py`). A connection that broke
before the end of a transaction has changed nothing, and is replaced; where it broke in the middle of COMMIT nobody can
know, and the error says so: asking again with the same idempotency key settles it.
"""

from __future__ import annotations

import copy
import math
import os
import re
import select
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

from novelo.errors import InvalidSpec, MissingExtra, StorageReadOnly, StorageUnavailable

try:
    import psycopg
    import psycopg_pool
    from psycopg import sql
except ImportError as missing:
    raise MissingExtra("PostgreSQL needs psycopg: pip install 'novelo[postgres]'") from missing

from novelo.stores.base import BACKUPS
from novelo.stores.postgres.faults import UNSURE, Conflict, Lost, translated
from novelo.stores.postgres.index import Index
from novelo.stores.postgres.migrations import bring_up, current
from novelo.stores.postgres.session import Session, adapt
from novelo.stores.postgres.texts import TABLES, checked_schema, escaped
from novelo.stores.privacy import Traces

T = TypeVar("T")
SCHEMA_NAME = "novelo"
TIMEOUT_S = 10.0  # for a connection, and for a free one of the pool
LOCK_S = 30.0  # how long a writer waits for another one of the same thread
POOL = 10  # connections at most, of one process
DEAD_ROWS = (
    "dead rows in the tables' files, until VACUUM has passed (the server does it by itself, or ask for it: vacuum)"
)
FREE = "free space in the tables' files, until it is written over (a full vacuum writes them anew)"
LOGS = "the server's write-ahead log, its archive and its standbys"
LOOK_S = 5.0  # after so long a connection that lies idle is asked whether it is alive; before, only its socket is
# A line that is cut says nothing: a server that does not take what was sent, or does not answer when it lies idle, is
# given up after a minute.
LINE = {"tcp_user_timeout": 60_000, "keepalives_idle": 30, "keepalives_interval": 10, "keepalives_count": 3}
WHY_S = 2  # for a connection that is only to say why there is none
RECONNECT_S = 1.0  # the longest time between two tries to reach a server that is away
OWNER, OWNER_WORD = "novelo.owner", "novelo.owner_word"  # settings of a transaction: whose rows are meant
OPTIONS = ("schema", "pool", "timeout", "lock_timeout")
# A process that was stopped in the middle of a transaction holds its locks: the server ends it after a while.
_WRITE = (
    "BEGIN; SET LOCAL lock_timeout = {0}; SET LOCAL statement_timeout = {1};"
    " SET LOCAL idle_in_transaction_session_timeout = {0}"
)
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


def _above_0(given: dict[str, str], name: str, otherwise: float) -> float:
    """An option that is a number.

    Raises:
        InvalidSpec: it is none, or not above 0; what was given is not repeated.
    """
    try:
        found = float(given.get(name, otherwise))
    except ValueError:
        found = 0.0
    if not 0 < found < math.inf or (name == "pool" and found % 1):
        raise InvalidSpec(f"option {name} of the address: expected a {'whole ' * (name == 'pool')}number above 0")
    return found


class Settings:
    """What an address says: where the server is, which schema, waits and pool are meant; shown without a password."""

    def __init__(self, url: str) -> None:
        """Read an address: postgresql://user:password@host:5432/database?schema=novelo&pool=10&timeout=10.

        Raises:
            InvalidSpec: no such address.
        """
        try:
            parts = urlsplit(url)
            if "@" in parts.path or not url.startswith(("postgresql://", "postgres://")):
                raise ValueError  # a slash too many, or too few: a password would be taken for a part of the name
            asked = parse_qsl(parts.query, keep_blank_values=True)
            own = {name: value for name, value in asked if name in OPTIONS}
            rest = urlencode([pair for pair in asked if pair[0] not in OPTIONS])
            self.schema = checked_schema(own.get("schema", SCHEMA_NAME))
            self.pool = int(_above_0(own, "pool", POOL))
            self.timeout_s = _above_0(own, "timeout", TIMEOUT_S)
            self.lock_s = _above_0(own, "lock_timeout", LOCK_S)
            address = f"postgresql://{parts.netloc}{parts.path}{'?' if rest else ''}{rest}"
            self.options: dict[str, Any] = dict(psycopg.conninfo.conninfo_to_dict(address))
        except InvalidSpec:
            raise
        except (ValueError, psycopg.Error):
            raise InvalidSpec(  # what was given may hold a password: it is not repeated
                "that address is none of PostgreSQL, or has an option that neither libpq nor novelo knows: expected "
                "postgresql://user:password@host:5432/database?schema=novelo&pool=10&timeout=10&lock_timeout=30"
            ) from None
        said = [str(self.options[name]) for name in ("password", "sslpassword") if self.options.get(name)]
        written = [parts.netloc.rpartition("@")[0].partition(":")[2], *re.findall(r"password=([^&]*)", parts.query)]
        self.secrets = [one for one in {*said, *map(unquote, said), *written, *map(unquote, written)} if one]
        self.options |= {"client_encoding": "UTF8"}
        self.options.setdefault("connect_timeout", max(2, round(self.timeout_s)))
        self.options.setdefault("application_name", "novelo")
        for name, value in LINE.items():
            self.options.setdefault(name, value)

    @property
    def place(self) -> str:
        """The server and the database, for errors."""
        host, port = self.options.get("host", "the local server"), self.options.get("port", "5432")
        return f"{host}:{port}/{self.options.get('dbname', '')}"

    @property
    def server(self) -> str:
        """The address for psql and its like, without a password."""
        named = {name: self.options.get(name) for name in ("user", "host", "port", "dbname")}
        return psycopg.conninfo.make_conninfo(**{name: value for name, value in named.items() if value})

    @property
    def address(self) -> str:
        """The address for our own commands, without a password."""
        host, user = str(self.options.get("host", "")), str(self.options.get("user", ""))
        apart = not host or "/" in host  # a folder of sockets
        hosts, ports = host.split(","), str(self.options.get("port", 5432)).split(",")
        ports = ports * len(hosts) if len(ports) == 1 else ports
        where = (
            ""
            if apart
            else ",".join(
                f"{f'[{one}]' if ':' in one else one}:{port}" for one, port in zip(hosts, ports, strict=False)
            )
        )
        more = {"host": host, "port": self.options.get("port")} if apart else {}
        query = urlencode({name: value for name, value in (more | {"schema": self.schema}).items() if value})
        name = quote(str(self.options.get("dbname", "")), safe="")
        return f"postgresql://{quote(user, safe='')}{'@' if user else ''}{where}/{name}?{query}"

    def __repr__(self) -> str:
        """The place alone."""
        return f"Settings({self.place}, schema={self.schema})"


class Database:
    """One schema of a database, and a pool of connections."""

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        """Connect, make or migrate the tables, and stand ready.

        Args:
            read_only: for looking alone: nothing is made, and nothing written.
        Raises:
            InvalidSpec: no address of PostgreSQL.
            StorageUnavailable, StorageReadOnly, StorageCorrupt: the database cannot be reached, or not be used.
            SchemaTooNew: a newer version wrote it.
        """
        self.settings = Settings(url)
        self.read_only = read_only
        lock_ms = round(self.settings.lock_s * 1000)
        self._begin = _WRITE.format(lock_ms, 10 * lock_ms)
        self._mine = threading.local()
        self._whose: list[str] = []
        self._process = os.getpid()
        self._closed = False
        with self._ours(), self._connected() as connection:
            if read_only:
                self.secret = current(connection, self.settings.schema)
            else:
                self.secret = bring_up(connection, self.settings.schema, lock_s=self.settings.lock_s)
        self._pool = psycopg_pool.ConnectionPool(
            kwargs=self._keywords(),
            min_size=0,
            max_size=self.settings.pool,
            timeout=self.settings.timeout_s,
            reconnect_timeout=RECONNECT_S / 2,
            configure=_configured,
            open=True,
            name=f"novelo-{self.settings.schema}",
        )

    def __repr__(self) -> str:
        """Where it is; never a password."""
        return f"Database({self.settings.place}, schema={self.settings.schema})"

    def of(self, owner: str, word: str) -> Database:
        """The same database over the same connections, for one owner: each transaction says so to the server.

        Args:
            word: how the owner's messages are marked in the search index.
        """
        made = copy.copy(self)
        made._mine = threading.local()
        made._whose = [
            sql.SQL("SET LOCAL {} = {}").format(sql.SQL(name), sql.Literal(escaped(value))).as_string()
            for name, value in ((OWNER, owner), (OWNER_WORD, word))
        ]
        return made

    @property
    def of_one_owner(self) -> bool:
        """Whether its transactions name an owner to the server."""
        return bool(self._whose)

    def index(self, secret: bytes, on: bool) -> Index:
        """The search index."""
        return Index(secret, on)

    # ------------------------------------------------------------------------------------------ lending
    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A connection; each statement sees one snapshot, inside of `snapshot` all of them the same."""
        held = getattr(self._mine, "session", None)
        if held is not None:
            with self._ours():
                yield held
            return
        if self._whose:
            with self.snapshot():
                yield self._mine.session
            return
        with self._lent() as connection, self._ours(connection):
            yield Session(connection, self.settings.schema, writing=False)

    @contextmanager
    def snapshot(self) -> Iterator[None]:
        """Everything that this thread reads inside sees one state of the database."""
        if getattr(self._mine, "session", None) is not None:
            yield
            return
        with self._lent() as connection:
            read = False
            try:
                with connection.pipeline() as pipeline:
                    for text in (_SNAPSHOT, *self._whose):
                        connection.execute(text)
                    self._mine.session = Session(connection, self.settings.schema, False, pipeline)
                    with _drained(pipeline):
                        yield
                    read = True
                    connection.execute("COMMIT")
            except psycopg.Error as error:
                if not read:  # else everything was read before the connection broke
                    raise translated(error, self.settings, connection, False) from error
            finally:
                self._mine.session = None
                self._roll_back(connection)

    @contextmanager
    def writing(self) -> Iterator[Session]:
        """A connection inside a transaction: committed at the end, or rolled back whole.

        Raises:
            Conflict, Lost: the same work may be done again, and `store.py` does so.
        """
        if self.read_only:
            raise StorageReadOnly("the database was opened for a look alone: open it again to write")
        if getattr(self._mine, "session", None) is not None:
            raise StorageUnavailable("a snapshot is for reading: leave it before you write")
        with self._lent() as connection:
            sent = False
            try:
                connection.execute(self._begin)
                with connection.pipeline() as pipeline:
                    with _drained(pipeline):
                        for text in self._whose:
                            connection.execute(text)
                        yield Session(connection, self.settings.schema, True, pipeline)
                    sent = True  # what was not waited for goes to the server together with this
                    connection._novelo_warned = False  # type: ignore[attr-defined]
                    connection.execute("COMMIT")
                if connection._novelo_warned:  # type: ignore[attr-defined]
                    raise StorageUnavailable(UNSURE)
            except psycopg.Error as error:
                self._roll_back(connection)
                raise translated(error, self.settings, connection, sent) from error
            except BaseException:
                self._roll_back(connection)
                raise

    def _roll_back(self, connection: psycopg.Connection[Any]) -> None:
        if not connection.closed and connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            with suppress(psycopg.Error):
                connection.execute("ROLLBACK")

    @contextmanager
    def _lent(self) -> Iterator[psycopg.Connection[Any]]:
        if self._process != os.getpid():
            raise StorageUnavailable("the database was opened before this process was forked: open it again here")
        if self._closed:
            raise StorageUnavailable("the memory is closed: open it again")
        connection = self._taken()
        try:
            yield connection
        finally:
            self._pool.putconn(connection)

    def _taken(self) -> psycopg.Connection[Any]:
        """A connection of the pool that is alive; while the server is away it is asked for again and again.

        The pool's own ways, to look at a connection and to reconnect, wait twice as long after each failure: they would
        be late when the server is there again.
        """
        end = time.monotonic() + self.settings.timeout_s
        while True:
            left = end - time.monotonic()
            try:
                connection = self._pool.getconn(max(0.001, min(RECONNECT_S, left)))
            except psycopg_pool.PoolTimeout as error:
                if left <= RECONNECT_S:
                    raise self._why_none() from error
            except psycopg_pool.PoolClosed as error:
                raise StorageUnavailable("the memory is closed: open it again") from error
            else:
                try:
                    _check(connection)
                    return connection
                except BaseException as error:
                    connection.close()
                    self._pool.putconn(connection)
                    if not isinstance(error, psycopg.Error):
                        raise

    def _why_none(self) -> StorageUnavailable:
        """The pool gave no connection: because the server gives none, or because all of ours are lent out."""
        with self._ours(), self._connected(connect_timeout=WHY_S):
            pass
        return StorageUnavailable(
            f"all {self.settings.pool} connections of the pool were busy for {self.settings.timeout_s:g} s: "
            "try again, or open more with ?pool="
        )

    @contextmanager
    def _connected(self, **other: Any) -> Iterator[psycopg.Connection[Any]]:
        """A connection beside the pool, whose errors are told at once and by their cause."""
        connection = psycopg.Connection.connect(**self._keywords() | other)
        try:
            yield connection
        finally:
            connection.close()

    def _keywords(self) -> dict[str, Any]:
        return {**self.settings.options, "autocommit": True, "prepare_threshold": None}

    @contextmanager
    def _ours(self, connection: psycopg.Connection[Any] | None = None) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise translated(error, self.settings, connection, False) from error

    # ------------------------------------------------------------------------------------------ the rest
    def with_room(self, work: Callable[[], T], smaller: Callable[[], T] | None = None) -> T:
        """Do work; a server keeps room for its log itself."""
        return work()

    def scrub(self) -> bool:
        """Nothing can be done from here: what was removed leaves the files with the next VACUUM (docs/postgres.md)."""
        return True

    def vacuum(self, full: bool) -> bool:
        """VACUUM all tables; `full` writes them anew, and keeps everybody else waiting meanwhile."""
        self.vacuumed("VACUUM (FULL)" if full else "VACUUM", TABLES)
        return True

    def vacuumed(self, how: str, tables: Iterable[str]) -> None:
        """Run one kind of VACUUM on tables; an error for whoever may not."""
        refused: list[str] = []  # that is told by a warning alone
        with self._ours(), self._connected() as connection:
            connection.add_notice_handler(lambda told: refused.append(told.sqlstate or ""))
            for table in tables:
                connection.execute(f'{how} "{self.settings.schema}".{table}')
        if any(state.startswith(("42501", "01")) for state in refused):
            raise StorageUnavailable("this user may not VACUUM the tables: ask as their owner (docs/postgres.md)")

    def traces(self, clean: bool, vacuumed: str) -> Traces:
        """What is left of removed rows, in words."""
        free = (FREE,) if vacuumed == "plain" else ()
        return Traces(() if vacuumed else (DEAD_ROWS,), free, (LOGS, BACKUPS))

    def close(self) -> None:
        """Close all connections; one that is lent out is closed when it comes back.

        In a process that was forked since they were opened nothing is: they are the other one's, who goes on with them.
        """
        if not self._closed:
            self._closed = True
            if self._process == os.getpid():
                self._pool.close(timeout=2.0)


@contextmanager
def _drained(pipeline: psycopg.Pipeline) -> Iterator[None]:
    """An error ends what was sent so far, and stays the one that is told."""
    try:
        yield
    except BaseException:
        with suppress(psycopg.Error):
            pipeline.sync()
        raise


def _configured(connection: psycopg.Connection[Any]) -> None:
    connection.cursor_factory = psycopg.RawCursor
    connection.add_notice_handler(lambda told: _heard(connection, told))
    adapt(connection)


def _heard(connection: psycopg.Connection[Any], told: psycopg.errors.Diagnostic) -> None:
    """A COMMIT that is cancelled while it waits for a standby succeeds, with a warning: a failover may yet lose it."""
    if told.severity_nonlocalized == "WARNING":
        connection._novelo_warned = True  # type: ignore[attr-defined]


def _check(connection: psycopg.Connection[Any]) -> None:
    """Whether a connection that lay in the pool can be used.

    A server that ends a connection says so, or closes it: then there is something to be read where nothing was asked.
    A line that is cut says nothing, and is asked after a while.
    """
    socket = connection.fileno()
    if select.select([socket], [], [], 0)[0] or time.monotonic() - getattr(connection, "_novelo_used", 0.0) > LOOK_S:
        psycopg_pool.ConnectionPool.check_connection(connection)
    connection._novelo_used = time.monotonic()  # type: ignore[attr-defined]


__all__ = ["Conflict", "Database", "Lost", "Settings"]
