"""What is made after the reply: versions of summaries, jobs to do, ledger rows of calls between turns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from decimal import Decimal
from itertools import islice
from typing import Any

import msgspec

from novelo.errors import StorageCorrupt
from novelo.stores.base import PARKED, Base, Job, Lease, ThreadRow, Work
from novelo.stores.rules import RETAKEN_S, free_job, storable
from novelo.stores.tables.connection import Connection, Row
from novelo.stores.tables.facts import read_call, spent_of, thread_row
from novelo.stores.tables.reading import Reading
from novelo.stores.tables.rows import over, sealed, unsealed
from novelo.stores.tables.walk import hidden_between
from novelo.summaries import Summary
from novelo.usage import Call, Spent

END_S = 1e12  # a moment behind all others


class Background(Reading):
    """Summaries, jobs and the ledger of a store over tables."""

    # ------------------------------------------------------------------------------------------ summaries
    def summary(self, thread: ThreadRow) -> Summary | None:
        """The version that contexts use."""
        if not thread.summary:
            return None
        with self.database.reading() as db:
            found = self._summary(db, thread.key, thread.summary)
        if found is None:
            raise StorageCorrupt(f"a summary of thread {thread.key.hex()} is missing: restore a backup")
        return msgspec.structs.replace(found, active=True)

    def summaries(self, key: bytes) -> list[Summary]:
        """All versions, oldest first."""
        with self.database.reading() as db:
            found = thread_row(db, key)
            if found is None or found[0].status == "erased":
                return []
            used = found[0].summary
            rows = [_read(key, row) for row in db.run("summaries", (key,))]
        return [msgspec.structs.replace(one, active=True) if one.version == used else one for one in rows]

    def _summary(self, db: Connection, key: bytes, version: int) -> Summary | None:
        row = next(iter(db.run("summary", (key, version))), None)
        return None if row is None else _read(key, row)

    def base_of(self, thread: ThreadRow, upto: int) -> Base:
        """What a summary of the entries below a position stands on."""
        with self.database.reading() as db:
            hidden = hidden_below(db, thread.key, upto)
        return Base(thread.summary, thread.content_version, upto, hidden)

    def swap_summary(
        self, key: bytes, base: Base, made: Summary, now: float, calls: Sequence[Call] = ()
    ) -> Summary | None:
        """Put a new version in use, if what it was made from still stands; its calls are noted in any case."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is None or found[0].status == "erased":
                return None
            self._note(db, key, None, calls, now)
            thread = found[0]
            if (thread.summary, thread.content_version) != (base.summary, base.content_version):
                return None
            if hidden_below(db, key, base.upto) != base.hidden:
                return None
            version = next(iter(db.run("newest_summary", (key,))))[0] + 1
            made = msgspec.structs.replace(made, version=version, created=now, active=False)
            self._put_summary(db, key, made)
            return msgspec.structs.replace(made, active=True)

    def _put_summary(self, db: Connection, key: bytes, made: Summary) -> None:
        body = sealed(key, f"summary {made.version}", msgspec.json.encode(made))
        db.run("new_summary", (key, made.version, made.upto, body))
        self._use(db, key, made.version)

    def _use(self, db: Connection, key: bytes, version: int) -> None:
        db.run("use_summary", (key, version))
        db.run("reseal", (key,))

    def _step_back(self, db: Connection, thread: ThreadRow, position: int) -> Summary | None:
        """The newest version in the line of the one in use that read nothing from a position on."""
        version = thread.summary
        while version:
            found = self._summary(db, thread.key, version)
            if found is None or found.upto <= position:
                return found
            version = found.base
        return None

    def _changed_below(self, db: Connection, key: bytes, position: int, *, drop: bool) -> int:
        """Entries from a position on changed: what was made from them is not used any more, or not even kept.

        Returns:
            How many summaries went.
        """
        found = thread_row(db, key)
        if found is None:
            return 0
        if found[0].summary:
            back = self._step_back(db, found[0], position)
            version = 0 if back is None else back.version
            if version != found[0].summary:
                self._use(db, key, version)
        if not drop:
            return 0
        db.run("drop_summaries", (key, position))
        return db.changes()

    # ------------------------------------------------------------------------------------------ the ledger
    def note_calls(self, key: bytes, calls: Sequence[Call], now: float) -> None:
        """Rows of the ledger for calls between turns."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is not None and found[0].status != "erased":
                self._note(db, key, None, calls, now)

    def _note(
        self,
        db: Connection,
        key: bytes,
        first: int | None,
        calls: Sequence[Call],
        now: float,
        before: Iterator[Row] | None = None,
    ) -> None:
        """Add to the ledger; `before` is the newest call so far, if it was asked for already."""
        if not calls:
            return
        number, spent = _last_call(key, self._newest_call(db, key) if before is None else before)
        for call in calls:
            number, spent = number + 1, spent.plus(call)
            db.run("call", _call_row(key, number, first, call, spent, now))

    def _newest_call(self, db: Connection, key: bytes, before: float = END_S) -> Iterator[Row]:
        return db.run("last_call", (key, int(before * 1000)))

    def spent(self, key: bytes | None, owner: str, since: float) -> Spent:
        """What a thread, or an owner, has spent since a moment."""
        if key is None and not storable(owner):
            return Spent()
        with self.database.reading() as db:
            keys = [key] if key is not None else [row[0] for row in db.run("spenders", (owner,))]
            total = Spent()
            for one in keys:
                now, before = _last_call(one, self._newest_call(db, one))[1], Spent()
                if since > 0:
                    before = _last_call(one, self._newest_call(db, one, since))[1]
                total = total.less(before).add(now)
            return total

    # ------------------------------------------------------------------------------------------ jobs
    def ask(self, key: bytes, work: Work, now: float) -> None:
        """A job is wanted; asked for again, it is done once."""
        with self.database.writing() as db:
            found = thread_row(db, key)
            if found is not None and found[0].status != "erased":
                self._ask(db, key, work, now)

    def _ask(self, db: Connection, key: bytes, work: Work, now: float) -> None:
        db.run("ask_work", (key, work.kind, work.due, work.spec, now + RETAKEN_S))

    def claim(
        self, lease: Lease, limit: int = 1, key: bytes | None = None, kinds: Collection[str] | None = None
    ) -> list[Job]:
        """Jobs that are due, and ours from now on: nobody else works at them while the lease holds."""
        with self.database.reading() as db:
            rows = db.run("due_work", (lease.now,)) if key is None else db.run("all_work", (key,))
            due = (job for job in map(_job, rows) if free_job(job, lease) and (kinds is None or job.kind in kinds))
            jobs = list(islice((job for job in due if job.due <= PARKED), limit))
        if not jobs:
            return []
        out = []
        until = lease.now + lease.ttl_s
        with self.database.writing() as db:
            for job in jobs:
                values = (job.key, job.kind, job.tries, job.holder, lease.holder, until)
                row = next(iter(db.run("claim_work", values)), None)
                if row is not None:
                    out.append(
                        msgspec.structs.replace(
                            job, holder=lease.holder, lease_until=until, tries=job.tries + 1, generation=row[0]
                        )
                    )
        return out

    def renew(self, job: Job, until: float) -> bool:
        """A longer lease; False: the job is not ours any more."""
        with self.database.writing() as db:
            values = (job.key, job.kind, job.holder, job.tries, until)
            return next(iter(db.run("renew_work", values)), None) is not None

    def finish(self, job: Job, now: float) -> bool:
        """A job is done; False: it was asked for again meanwhile and stays, due at once."""
        with self.database.writing() as db:
            values = (job.key, job.kind, job.holder, job.tries)
            db.run("work_done", (*values, job.generation))
            done = bool(db.changes())
            if not done:
                db.run("work_again", (*values, now, 0, ""))
            return done

    def put_off(self, job: Job, due: float, error: str) -> None:
        """A job failed, and is due again later; the count of its tries stays."""
        with self.database.writing() as db:
            db.run("work_again", (job.key, job.kind, job.holder, job.tries, due, job.tries, error))

    def jobs(self, key: bytes | None = None) -> list[Job]:
        """All jobs, of one thread or of all, the next due first."""
        with self.database.reading() as db:
            return [_job(row) for row in db.run("all_work", (key,))]

    def next_due(self, kinds: Collection[str] | None = None) -> float | None:
        """When the next job can be claimed; None if there is none."""
        with self.database.reading() as db:
            found: dict[str, float] = dict(db.run("next_work"))
        return min((due for kind, due in found.items() if kinds is None or kind in kinds), default=None)


def _read(key: bytes, row: tuple[Any, ...]) -> Summary:
    try:
        return msgspec.json.decode(unsealed(key, f"summary {row[0]}", row[1]), type=Summary)
    except msgspec.MsgspecError as error:
        raise StorageCorrupt(f"a summary of thread {key.hex()} was altered outside of novelo") from error


def _last_call(key: bytes, rows: Iterator[Row]) -> tuple[int, Spent]:
    """The number of a call, and what the thread had spent with it; before the first one, -1 and nothing."""
    row = next(iter(list(rows)), None)
    if row is None:
        return -1, Spent()
    read_call(key, row[1:])
    return row[0], spent_of(row[1:])


def _job(row: tuple[Any, ...]) -> Job:
    return Job(*row)


def hidden_below(db: Connection, key: bytes, upto: int) -> tuple[tuple[int, int], ...]:
    """A thread's hidden ranges below a position, cut off there."""
    return tuple((a, min(b, upto)) for a, b in hidden_between(db, key, 0, upto))


def _call_row(key: bytes, number: int, first: int | None, call: Call, spent: Spent, now: float) -> tuple[Any, ...]:
    row = (
        first, call.purpose, call.model, call.input, call.output, call.cache_read, call.cache_write,
        call.reasoning, _milliseconds(call.latency_s), _milliseconds(call.first_token_s), int(call.estimated),
        int(now * 1000), _text(call.cost), call.prices, spent.tokens, str(spent.cost),
        sealed(key, "usage", msgspec.json.encode(call.raw)) if call.raw else None,
    )  # fmt: skip
    return (key, number, *row, over("call", key, *row))


def _text(cost: Decimal | None) -> str | None:
    return None if cost is None else str(cost)


def _milliseconds(seconds: float | None) -> int | None:
    return None if seconds is None else round(seconds * 1000)
