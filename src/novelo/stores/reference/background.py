"""What is made after the reply: versions of summaries, jobs to do, ledger rows of calls between turns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from novelo.stores.base import PARKED, VECTOR_REACH, Base, Job, Lease, ThreadRow, Work
from novelo.stores.reference.kept import Kept, KeptThreads
from novelo.stores.rules import RETAKEN_S, free_job
from novelo.summaries import Summary, inherited
from novelo.usage import Call

replace = msgspec.structs.replace


class KeptBackground(KeptThreads):
    """Summaries and jobs of the reference store."""

    # ------------------------------------------------------------------------------------------ summaries
    def summary(self, thread: ThreadRow) -> Summary | None:
        """The version that contexts use."""
        with self._lock:
            kept = self._living(thread.key)
            found = None if kept is None else version_of(kept, thread.summary)
            return None if found is None else replace(found, active=True)

    def summaries(self, key: bytes) -> list[Summary]:
        """All versions, oldest first."""
        with self._lock:
            kept = self._living(key)
            return [] if kept is None else [replace(s, active=s.version == kept.row.summary) for s in kept.summaries]

    def base_of(self, thread: ThreadRow, upto: int) -> Base:
        """What a summary of the entries below a position stands on."""
        with self._lock:
            kept = self._living(thread.key)
            hidden = () if kept is None else _hidden_below(kept, upto)
            return Base(thread.summary, thread.content_version, upto, hidden)

    def swap_summary(
        self, key: bytes, base: Base, made: Summary, now: float, calls: Sequence[Call] = ()
    ) -> Summary | None:
        """Put a new version in use, if what it was made from still stands; its calls are noted in any case."""
        with self._lock:
            kept = self._living(key)
            if kept is None:
                return None
            self.note_calls(key, calls, now)
            if (kept.row.summary, kept.row.content_version) != (base.summary, base.content_version):
                return None
            if _hidden_below(kept, base.upto) != base.hidden:
                return None
            kept.newest_summary += 1
            self._put_summary(kept, replace(made, version=kept.newest_summary, created=now, active=False))
            return replace(kept.summaries[-1], active=True)

    def _put_summary(self, kept: Kept, made: Summary) -> None:
        kept.summaries.append(made)
        kept.row = replace(kept.row, summary=made.version)

    def _share_summary(self, parent: Kept, made: Kept, at: int) -> None:
        """A fork begins with the summary that its parent had of what they share, and with what that one stands on."""
        line = []
        found = _step_back(parent, at)
        while found is not None:
            line.append(found)
            found = version_of(parent, found.base)
        for one in inherited(line, at, made.row.turns, made.row.running):
            made.newest_summary = one.version
            self._put_summary(made, one)

    def _changed_below(self, kept: Kept, position: int, *, drop: bool) -> None:
        """Entries from a position on changed: what was made from them is not used any more, or not even kept."""
        back = _step_back(kept, position)
        kept.row = replace(kept.row, summary=0 if back is None else back.version)
        if drop:
            kept.summaries = [s for s in kept.summaries if s.upto <= position]

    # ------------------------------------------------------------------------------------------ the ledger
    def note_calls(self, key: bytes, calls: Sequence[Call], now: float) -> None:
        """Rows of the ledger for calls between turns."""
        with self._lock:
            kept = self._living(key)
            if kept is not None:
                kept.calls += [replace(call, turn=None, created=now) for call in calls]

    # ------------------------------------------------------------------------------------------ jobs
    def ask(self, key: bytes, work: Work, now: float) -> None:
        """A job is wanted; asked for again, it is done once."""
        with self._lock:
            kept = self._living(key)
            if kept is not None:
                self._ask(kept, work, now)

    def _ask(self, kept: Kept, work: Work, now: float) -> None:
        old = kept.work.get(work.kind)
        if old is None:
            row = kept.row
            kept.work[work.kind] = Job(row.key, work.kind, work.due, 1, 0, work.spec, "", row.owner, row.thread_id)
            return
        due = work.due if not old.tries else now + RETAKEN_S if old.parked else max(old.due, work.due)
        kept.work[work.kind] = replace(old, generation=old.generation + 1, spec=work.spec, due=due)

    def claim(
        self, lease: Lease, limit: int = 1, key: bytes | None = None, kinds: Collection[str] | None = None
    ) -> list[Job]:
        """Jobs that are due, and ours from now on."""
        moment = lease.now if key is None else PARKED
        with self._lock:
            out = [
                job
                for name, kept in self._all().items()
                for job in kept.work.values()
                if key in (None, name) and job.due <= moment and free_job(job, lease)
                if kinds is None or job.kind in kinds
            ]
            out = [
                replace(job, holder=lease.holder, lease_until=lease.now + lease.ttl_s, tries=job.tries + 1)
                for job in sorted(out, key=lambda job: job.due)[:limit]
            ]
            for job in out:
                self._all()[job.key].work[job.kind] = job
            return out

    def _ours(self, job: Job) -> Job | None:
        kept = self._all().get(job.key)
        found = None if kept is None else kept.work.get(job.kind)
        return found if found is not None and (found.holder, found.tries) == (job.holder, job.tries) else None

    def renew(self, job: Job, until: float) -> bool:
        """A longer lease; False: the job is not ours any more."""
        with self._lock:
            found = self._ours(job)
            if found is not None:
                self._all()[job.key].work[job.kind] = replace(found, lease_until=until)
            return found is not None

    def finish(self, job: Job, now: float) -> bool:
        """A job is done; False: it was asked for again meanwhile and stays, due at once."""
        with self._lock:
            found = self._ours(job)
            if found is not None and found.generation == job.generation:
                del self._all()[job.key].work[job.kind]
                return True
            if found is not None:
                self._all()[job.key].work[job.kind] = replace(
                    found, holder="", lease_until=0.0, due=now, tries=0, error=""
                )
            return False

    def put_off(self, job: Job, due: float, error: str) -> None:
        """A job failed, and is due again later; the count of its tries stays."""
        with self._lock:
            found = self._ours(job)
            if found is not None:
                self._all()[job.key].work[job.kind] = replace(found, holder="", lease_until=0.0, due=due, error=error)

    def jobs(self, key: bytes | None = None) -> list[Job]:
        """All jobs, of one thread or of all, the next due first."""
        with self._lock:
            out = [job for name, kept in self._all().items() if key in (None, name) for job in kept.work.values()]
            return sorted(out, key=lambda job: job.due)

    def next_due(self, kinds: Collection[str] | None = None) -> float | None:
        """When the next job can be claimed; None if there is none."""
        jobs = (job for job in self.jobs() if kinds is None or job.kind in kinds)
        return min((max(job.due, job.lease_until) for job in jobs), default=None)

    # ------------------------------------------------------------------------------------------ vectors of messages
    def unembedded(self, thread: ThreadRow, model: str, limit: int) -> list[int]:
        """The newest positions of the thread's own entries without a vector of a model, newest first."""
        with self._lock:
            kept = self._living(thread.key)
            own = [] if kept is None else sorted((p for p in kept.entries if p < thread.head), reverse=True)
            return [p for p in own if kept is not None and (model, p) not in kept.vectors][:limit]

    def put_vectors(self, key: bytes, model: str, base: Base, vectors: Mapping[int, bytes]) -> bool:
        """Keep vectors of the thread's own entries, if what they were made from still stands."""
        with self._lock:
            kept = self._living(key)
            if kept is None or kept.row.content_version != base.content_version:
                return False
            if _hidden_below(kept, base.upto) != base.hidden:
                return False
            kept.vectors |= {(model, position): vector for position, vector in vectors.items()}
            return True

    def vectors(self, thread: ThreadRow, model: str, limit: int) -> list[tuple[int, bytes]]:
        """Position and vector of the newest visible entries that have one of a model, newest first."""
        out: list[tuple[int, bytes]] = []
        with self._lock:
            for position in range(thread.head - 1, -1, -1):
                found = self._holder(thread, position).vectors.get((model, position))
                if found and not self._entry(thread, position).hidden:
                    out.append((position, found))
        return out[:limit]

    def _drop_vectors(self, kept: Kept, start: int, stop: int) -> None:
        """Vectors of a thread's own entries in a range go, and of those behind it that may be made from them."""
        kept.vectors = {at: v for at, v in kept.vectors.items() if not start <= at[1] < stop + VECTOR_REACH}


def version_of(kept: Kept, version: int) -> Summary | None:
    """A version of a thread's summary by its number."""
    return next((s for s in kept.summaries if s.version == version), None)


def _step_back(kept: Kept, position: int) -> Summary | None:
    found = version_of(kept, kept.row.summary)
    while found is not None and found.upto > position:
        found = version_of(kept, found.base)
    return found


def _hidden_below(kept: Kept, upto: int) -> tuple[tuple[int, int], ...]:
    return tuple((a, min(b, upto)) for a, b in kept.hidden if a < upto)
