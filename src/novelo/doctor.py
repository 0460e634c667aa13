"""A look at all that can go wrong with a memory: what was found, where, and the command that mends it.

The engine tells of the file or the server; here threads are looked at, the last used first, and their jobs. Nothing is
written, and however large the database is, a page of threads and some messages are held at a time. Findings of one kind
are counted, and the first of them kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from novelo.context.budget import Budget
from novelo.context.ends import DropOldest
from novelo.context.sizes import Size
from novelo.context.spec import parse, stages_of
from novelo.context.summary import Summarize
from novelo.context.window import Window
from novelo.errors import InvalidSpec, NoveloError, StorageCorrupt
from novelo.repair import check
from novelo.stores.base import Job, Store, ThreadRow
from novelo.stores.findings import Finding, Look, OnLook, Severity, command

if TYPE_CHECKING:
    from novelo.memory import Memory
    from novelo.thread import Thread

KEPT = 20  # findings of a kind that are told one by one
FULL = 0.8  # of the model's window, from which on a context is about to overflow
READ = 400  # newest messages of a thread whose order is checked
PAGE = 200
LATE_S = 600.0  # after so long a job that is due has no worker
NO_WINDOW = 100_000  # tokens of a thread that is sent whole, where nobody knows the window


class Checkup(msgspec.Struct):
    """What was found.

    Attributes:
        database: the engine, the sizes of its tables, and what it says of itself.
        threads, looked_at: how many there are, and how many of them were looked at.
        findings: of everything; of each kind the first ones.
        more: how many of a kind there are beyond those.
    """

    database: Look
    threads: int = 0
    looked_at: int = 0
    findings: list[Finding] = []
    more: dict[str, int] = {}

    @property
    def sound(self) -> bool:
        """Whether there is nothing but notes."""
        return all(one.severity == "note" for one in self.findings)


def examined(
    memory: Memory,
    look: Callable[[Store, bool, OnLook | None], Look],
    policy: Any,
    window: int | None,
    most: int,
    deep: bool,
    progress: OnLook | None,
) -> Checkup:
    """Look at everything; see `Memory.doctor`."""
    out = Checkup(look(memory.store, deep, progress))
    out.findings += out.database.findings
    out.threads = next((one.rows or 0 for one in out.database.tables if one.table == "threads"), 0)
    examiner = _Examiner(memory, out, None if policy is None else parse(policy), window, deep)
    total = min(most, out.threads) if most else out.threads
    for row in _rows(memory, out, most):
        examiner.thread(row)
        out.looked_at += 1
        if progress is not None and out.looked_at % PAGE == 0:
            progress(out.looked_at, max(total, out.looked_at), "threads")
    examiner.policies()
    examiner.jobs(memory.jobs())
    order = ("error", "warning", "note")
    out.findings.sort(key=lambda one: order.index(one.severity))
    return out


def _rows(memory: Memory, out: Checkup, most: int) -> Iterator[ThreadRow]:
    cursor, left, damaged = None, most or 1 << 60, 0
    while left > 0:
        page = memory.threads(cursor=cursor, limit=min(PAGE, left))
        damaged += len(page.damaged)
        for text in page.damaged:
            again = command("novelo", "copy", out.database.address, "rescued.db")
            out.findings.append(Finding("error", "damage", "threads", f"{text}; the others can be copied", again))
        yield from page
        cursor, left = page.cursor, left - len(page)
        if cursor is None:  # these are all; the table has a row of each erased one, too
            out.threads = out.looked_at + damaged
            return


class _Examiner:
    """Looks at threads and jobs, and notes what it finds."""

    def __init__(self, memory: Memory, out: Checkup, policy: Any, window: int | None, deep: bool) -> None:
        self.memory, self.out, self.policy, self.window, self.deep = memory, out, policy, window, deep
        self.now = time.time()
        self._policies: dict[str, tuple[str, int, ThreadRow]] = {}  # spec -> what to try instead, threads, one of them

    def add(self, severity: Severity, kind: str, place: str, text: str, mended_by: str) -> None:
        """One more, unless there are many of its kind already."""
        if sum(one.check == kind for one in self.out.findings) < KEPT:
            self.out.findings.append(Finding(severity, kind, place, text, mended_by))
        else:
            self.out.more[kind] = self.out.more.get(kind, 0) + 1

    def command(self, name: str, row: ThreadRow | Job | None, *more: str) -> str:
        """A command of ours about a thread."""
        words = ["novelo", name, *([] if row is None else [row.thread_id]), "-d", self.out.database.address]
        return command(*words, *(["--owner", row.owner] if row is not None and row.owner else []), *more)

    # ------------------------------------------------------------------------------------------ threads
    def thread(self, row: ThreadRow) -> None:
        """Look at one."""
        place = f"thread {row.thread_id!r}" + (f" of {row.owner!r}" if row.owner else "")
        thread = self.memory.thread(row.thread_id, row.owner)
        try:
            self._turn(thread, row, place)
            self._order(thread, row, place)
            self._summary(thread, row, place)
            if self.deep:
                self._all(row)
        except StorageCorrupt as error:
            rescue = command("novelo", "copy", self.out.database.address, "rescued.db")
            self.add("error", "damage", place, f"{error}; the others can be copied", rescue)
        except NoveloError as error:
            show = self.command("context", row)
            self.add("error", "context", place, f"no context can be made: {type(error).__name__}: {error}", show)

    def _turn(self, thread: Thread, row: ThreadRow, place: str) -> None:
        last = next(iter(self.memory.store.turns(row.key, 1)), None)
        if row.open_turn is not None and row.lease_until < self.now and last is not None and last.status == "open":
            close = command("novelo", "mend", "-d", self.out.database.address, "--turns")
            ago = f"its lease ended {self.now - row.lease_until:.0f} s ago"
            self.add("warning", "turns", place, f"the turn at {row.open_turn} has no writer any more: {ago}", close)
        manifest = None if last is None else self.memory.unpack_manifest(last.manifest)
        spec = str(self.policy) if self.policy is not None else None if manifest is None else manifest.policy
        try:
            stages = stages_of(parse(spec)) if spec is not None else ()
        except InvalidSpec:
            return  # a policy of the program's own: only it knows what it does
        window = self.window or (None if manifest is None else self.memory.window_of(manifest.model))
        used = (
            manifest.tokens.get("total", row.running) if manifest is not None and self.policy is None else row.running
        )
        bounded = any(isinstance(stage, Budget | Window | DropOldest) for stage in stages)
        summarized = any(isinstance(stage, Summarize) for stage in stages)
        if window is not None and used > FULL * window and not (self.policy is not None and (bounded or summarized)):
            text = f"its context has {used} tokens of a window of {window}"
        elif window is None and used > NO_WINDOW and not bounded and not summarized:
            text = f"its context has {used} tokens, and nothing bounds it"
        else:
            if manifest is None or manifest.left_out:
                self._cut(stages, spec, row)
            return
        if not summarized:
            text += "; summarize it, and open with a policy such as summarize:20messages,keep=6 + budget:80%"
        self.add("warning", "overflow", place, text, self.command("compact", row))

    def _cut(self, stages: Iterable[Any], spec: str | None, row: ThreadRow) -> None:
        """Whether a policy moves the context's beginning at every turn, so that no prompt cache holds."""
        if spec is None:
            return
        better = [str(_calmer(stage) or stage) for stage in stages]
        if better != [str(stage) for stage in stages]:
            _, count, first = self._policies.get(spec, ("", 0, row))
            self._policies[spec] = " + ".join(better), count + 1, first

    def policies(self) -> None:
        """Tell of the policies that were met."""
        for spec, (better, count, row) in self._policies.items():
            text = (
                f"it moves the beginning of the context at every turn, so that no prompt cache holds ({count} threads)"
            )
            try_it = self.command("compare", row, "-p", f"{spec}; {better}")
            self.add("note", "cache", f"policy {spec}", f"{text}: try {better}", try_it)

    def _order(self, thread: Thread, row: ThreadRow, place: str) -> None:
        entries = self.memory.store.tail(row, row.head, READ)
        messages = [entry.message for entry in reversed(entries)]
        if row.head > READ:  # begin with a question: what the cut took away is not missing
            first = next((n for n, one in enumerate(messages) if one.role == "user"), len(messages))
            messages = messages[first:]
        if row.open_turn is not None and messages:
            messages = messages[: max(1, len(messages) - (row.head - row.open_turn))]
        found = check(messages) if messages else []
        if found:
            rules = ", ".join(sorted({one.rule for one in found}))
            mended = f"{self.command('export', row, '--kind', 'openai', '-o', '-')} | novelo check - --fix"
            text = f"its history breaks {len(found)} times what providers ask for ({rules}); contexts are mended"
            self.add("note", "history", place, text, mended)

    def _summary(self, thread: Thread, row: ThreadRow, place: str) -> None:
        found = self.memory.store.summary(row) if row.summary else None
        if found is None:
            return
        mine, gone = ([fact for fact in facts if fact.role == "user"] for facts in (found.facts, found.lost))
        every, floor = len(mine) + len(gone), Summarize().floor
        if every and len(mine) * 100 < floor * every:
            text = f"summary {found.version} has kept {len(mine)} of {every} exact facts of the user's, under {floor} %"
            self.add("warning", "summary", place, text, self.command("compact", row, "--redo"))

    def _all(self, row: ThreadRow) -> None:
        """Read every message, and the ledger: what was altered is an error."""
        self.memory.store.calls(row.key)
        for start in range(0, row.head, READ):
            self.memory.store.range(row, start, READ, hidden=True)

    # ------------------------------------------------------------------------------------------ jobs
    def jobs(self, found: Iterable[Job]) -> None:
        """Look at the jobs."""
        worker = command("novelo", "worker", "--once", "-d", self.out.database.address)
        again = command("novelo", "mend", "-d", self.out.database.address, "--jobs")
        late, last = 0, 0.0
        for job in found:
            place = f"job {job.kind} of thread {job.thread_id!r}" + (f" of {job.owner!r}" if job.owner else "")
            if job.parked:
                self.add("warning", "parked", place, f"it failed {job.tries} times, last with {job.error}", again)
            elif job.holder and job.lease_until < self.now:
                ago = f"its lease ended {self.now - job.lease_until:.0f} s ago"
                self.add("warning", "jobs", place, f"whoever worked at it is gone: {ago}", worker)
            elif not job.holder and job.due < self.now - LATE_S:
                late, last = late + 1, max(last, self.now - job.due)
        if late:
            self.add("warning", "jobs", "work", f"{late} jobs wait for a worker, the longest for {last:.0f} s", worker)


def _calmer(stage: Any) -> Any:
    """The same policy on a grid, so that its cut holds still for some turns; None if it does."""
    if isinstance(stage, Window) and not stage.slack and stage.size.number > 1:
        return Window(stage.size, max(1, stage.size.number // 2))
    if isinstance(stage, Budget) and stage.low is None:
        half = Size(stage.high.number // 2, stage.high.unit)
        return Budget(stage.high, half, stage.reserve, stage.window)
    return None


def mended(memory: Memory, what: str) -> int:
    """Close abandoned turns, take parked jobs up, or end erasures; see `Memory.mend`."""
    if what == "turns":
        done, cursor = 0, None
        while True:
            page = memory.threads(cursor=cursor, limit=PAGE)
            for row in page:
                if row.open_turn is not None and row.lease_until < time.time():
                    done += memory.store.reap(row.key, memory.lease())
            cursor = page.cursor
            if cursor is None:
                return done
    if what == "jobs":
        parked = [job for job in memory.jobs() if job.parked]
        for job in parked:
            memory.store.put_off(job, time.time(), job.error)
        return len(parked)
    if what == "erasures":
        return int(memory.store.scrub())
    raise InvalidSpec(f"mend {what!r}: expected turns, jobs, erasures, indexes or vacuum")
