"""The errors of PostgreSQL as errors of ours: what happened, and what to do; never a password, never a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from novelo.errors import StorageCorrupt, StorageFull, StorageReadOnly, StorageUnavailable, StoreError

if TYPE_CHECKING:
    from novelo.stores.postgres.database import Settings


class Conflict(StorageUnavailable):
    """Two transactions met; this one changed nothing, and may be tried again."""


class Lost(StorageUnavailable):
    """The connection broke before the end of a transaction, which changed nothing."""


UNSURE = "a transaction was committed and not confirmed, stored or not: ask again with the same key"
AGAIN = {"40001", "40P01", "23505", "40003"}  # serialization, deadlock, two that made the same row; unknown completion
BROKEN = ("08", "57P01", "57P02", "57P03")  # the connection, or the server, went
# What the server calls an error -> what we call it, and what to do.
SAID: tuple[tuple[tuple[str, ...], type[StoreError], str], ...] = (
    (("53100", "53200"), StorageFull, "the server's disk or memory is full: nothing was stored; free some, try again"),
    (("25006",), StorageReadOnly, "the server takes no writes, it is a standby: open the primary's address"),
    (
        ("53300", "53400"), StorageUnavailable,
        "the server has no free connection: close some, use a pooler, or raise max_connections",
    ),
    (("55P03",), StorageUnavailable, "another transaction kept a lock for more than {lock_s:g} s: try again"),
    (("57014",), StorageUnavailable, "the server ended a statement that took too long: try again"),
    (
        ("28",), StorageUnavailable,
        "the server at {place} refused the name or the password: check the address and pg_hba.conf",
    ),
    (("3D",), StorageUnavailable, "there is no such database at {place}: create it with createdb"),
    (("42501",), StorageUnavailable, "this user may not do that: see the grants in docs/postgres.md"),
    (("42P01", "42703", "3F"), StorageCorrupt, "tables of the schema are missing or altered: restore a backup"),
    (("XX001", "XX002"), StorageCorrupt, "the server found its files damaged: restore a backup"),
    (("22", "23", "42"), StorageCorrupt, "the database was altered outside of novelo: restore a backup"),
)  # fmt: skip
# What libpq says in words alone, before a connection is there.
WORDS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("authentication failed", "no password supplied", "no pg_hba.conf entry", ': role "', ':  role "'), "28000"),
    (("does not exist",), "3D000"),
    (("too many", "remaining connection slots", "no more connections allowed"), "53300"),
)  # fmt: skip


def translated(
    error: psycopg.Error, settings: Settings, connection: psycopg.Connection[Any] | None, committing: bool
) -> StoreError:
    """The error of ours for one of PostgreSQL's.

    Args:
        committing: it came in the middle of COMMIT.
    """
    state = error.sqlstate or _state_of(str(error))
    _quieten(error, state)
    gone = state.startswith(BROKEN) or (connection is not None and bool(connection.closed))
    if gone and committing:
        return StorageUnavailable(UNSURE)
    if gone and connection is not None:
        return Lost(f"the connection to {settings.place} broke, nothing was stored: try again")
    if state in AGAIN:
        return Conflict("another transaction was quicker, nothing was stored: try again")
    for states, ours, text in SAID:
        if state.startswith(states):
            return ours(f"{text.format(place=settings.place, lock_s=settings.lock_s)} ({state})")
    if not state or gone:
        return StorageUnavailable(f"the server at {settings.place} cannot be reached ({_first_line(error, settings)})")
    return StorageUnavailable(f"the server at {settings.place} gave an error ({type(error).__name__}, {state})")


def _quieten(error: psycopg.Error, state: str) -> None:
    """An error that goes on as the cause of ours says what happened, and no value of a row: tracebacks land in logs."""
    if error.sqlstate:
        said = "" if state.startswith("22") else error.diag.message_primary or ""  # those of data repeat it
        error.args = (f"{state} {said}".strip(),)


def _state_of(text: str) -> str:
    return next((state for words, state in WORDS if any(word in text for word in words)), "")


def _first_line(error: psycopg.Error, settings: Settings) -> str:
    lines = str(error).strip().splitlines()
    text = lines[0] if lines else type(error).__name__
    for secret in settings.secrets:
        text = text.replace(secret, "***")
    return text[:200]
