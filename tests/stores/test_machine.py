"""Random operations on two stores at once: whatever the reference does, SQLite does."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from fix_postgres import SHARDS
from fix_stores import new
from novelo.errors import StoreError
from novelo.messages import Message
from novelo.stores.base import PARKED, Begun, Busy, Close, Cut, Lease, Note, Work
from novelo.stores.reference import ReferenceStore
from novelo.stores.sqlite import Database, SQLiteStore
from novelo.summaries import Summary
from novelo.usage import Call
from novelo.words import kin

NAMES = [("", "a"), ("", "b"), ("ana", "a"), ("ana", "c")]
WORDS = ["olá", "退货", "concluído", "x"]
names = st.sampled_from(NAMES)
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=3).map(" ".join)
places = st.integers(0, 12)
states = st.sampled_from([None, {"n": [1]}])
roles = st.sampled_from(["user", "assistant", "system", "tool"])


class TwoStores(RuleBasedStateMachine):
    """The reference and SQLite in memory, told the same things at the same times."""

    def __init__(self):
        super().__init__()
        self.stores = [ReferenceStore(), SQLiteStore(Database(""))]
        self.now = 1000.0
        self.turns = []  # (name, epoch, first), newest last
        self.jobs, self.claims = [[], []], 0

    def teardown(self):
        """Close both."""
        for store in self.stores:
            store.close()

    def both(self, act):
        """Do the same in both; they must agree, in their errors too."""
        one, two = (self._done(act, store) for store in self.stores)
        assert one == two, (one, two)
        return one

    def _done(self, act, store):
        try:
            return _comparable(act(store, lambda name: store.key_of(*name)))
        except StoreError as error:
            return type(error).__name__
        except ValueError as error:
            return type(error).__name__

    def lease(self, holder):
        """A lease as of now."""
        return Lease(holder, 30.0, self.now)

    @rule(seconds=st.sampled_from([0.0, 1.0, 40.0]))
    def wait(self, seconds):
        """Time passes; sometimes longer than a lease."""
        self.now += seconds

    @rule(name=names, text=texts, key=st.sampled_from([None, "k1", "k2"]),
          mode=st.sampled_from(["queue", "interrupt", "rollback"]),
          holder=st.sampled_from(["me", "you"]), hide_from=st.none() | places)  # fmt: skip
    def begin(self, name, text, key, mode, holder, hide_from):
        """Ask something."""
        done = self.both(lambda s, k: s.begin(
            k(name), name, new(text), self.lease(holder), idempotency=None if key is None else (key, b"r"), mode=mode,
            hide_from=hide_from,
        ))  # fmt: skip
        self._note(name, done)

    def _note(self, name, done):
        if isinstance(done, tuple) and done[0] == "begun" and not done[-2]:
            self.turns.append((name, done[2], done[3]))

    @rule(name=names, first=places, mode=st.sampled_from(["queue", "interrupt"]))
    def reopen(self, name, first, mode):
        """Take a turn up again."""
        self._note(name, self.both(lambda s, k: s.reopen(k(name), first, self.lease("me"), mode=mode)))

    @precondition(lambda self: self.turns)
    @rule(back=st.integers(0, 2), said=st.lists(texts, max_size=2), role=st.sampled_from(["assistant", "user"]),
          close=st.sampled_from([None, "done", "failed", "waiting"]), state=states)  # fmt: skip
    def step(self, back, said, role, close, state):
        """Append to a turn, the newest or an older one."""
        name, epoch, first = self.turns[max(-1 - back, -len(self.turns))]
        self.both(lambda s, k: s.append(
            k(name), epoch, first, [new(t, role) for t in said], self.now, state=state, holder="me",
            close=None if close is None else Close(close, b"{}"),
            calls=[Call(input=3, cost=Decimal("0.25"))], lease_until=self.now + 30,
        ))  # fmt: skip

    @precondition(lambda self: self.turns)
    @rule(back=st.integers(0, 2), text=st.none() | texts)
    def keep_draft(self, back, text):
        """Renew a lease, and keep what was streamed."""
        name, epoch, first = self.turns[max(-1 - back, -len(self.turns))]
        draft = None if text is None else new(text, "assistant", meta={"partial": True})
        self.both(lambda s, k: s.keep_draft(k(name), epoch, first, draft, self.now + 30))

    @rule(name=names, said=st.lists(st.tuples(roles, texts), min_size=1, max_size=4), hide_from=st.none() | places)
    def add(self, name, said, hide_from):
        """Messages outside of turns."""
        made = [new(text, role) for role, text in said]
        self.both(lambda s, k: s.add(k(name), name, made, self.lease("me"), hide_from=hide_from))

    @rule(name=names)
    def reap(self, name):
        """Close what was abandoned."""
        self.both(lambda s, k: s.reap(k(name), self.lease("me")))

    @rule(name=names, facts=st.fixed_dictionaries({}, optional={
        "title": texts, "status": st.sampled_from(["active", "closed"]),
        "tags": st.just(["t"]), "metadata": st.just({"m": 1}), "state": st.just({"s": 1}),
    }))  # fmt: skip
    def facts(self, name, facts):
        """Note something about a thread."""
        self.both(lambda s, k: s.set_facts(k(name), name, self.now, **facts))

    @rule(name=names, patch=st.dictionaries(st.sampled_from("xy"), st.integers(0, 3)), gone=st.sampled_from("xyz"))
    def patch(self, name, patch, gone):
        """Change single keys of the state."""
        self.both(lambda s, k: s.set_facts(k(name), name, self.now, patch=patch))
        self.both(lambda s, k: s.set_facts(k(name), name, self.now, without=gone))

    @rule(name=names, positions=st.lists(places, max_size=3), on=st.booleans())
    def pin(self, name, positions, on):
        """Pin or unpin."""
        self.both(lambda s, k: s.pin(k(name), positions, on))

    @rule(name=names, start=places, size=st.integers(0, 4), on=st.booleans())
    def hide(self, name, start, size, on):
        """Hide or show."""
        self.both(lambda s, k: s.hide(k(name), [(start, start + size)], on, self.now))

    @rule(name=names, upto=places, undo=st.booleans(), stale=st.sampled_from(["", "hidden", "version", "content"]))
    def summarize(self, name, upto, undo, stale):
        """Swap a summary in, or one that takes the newest back; sometimes from a base that does not stand."""

        def act(store, key):
            row = store.thread(key(name))
            if row is None:
                return None
            base = store.base_of(row, min(upto, row.head))
            if stale:
                spoilt = {"hidden": {"hidden": (*base.hidden, (0, 1))}, "version": {"summary": base.summary + 1},
                          "content": {"content_version": base.content_version + 1}}[stale]  # fmt: skip
                base = msgspec.structs.replace(base, **spoilt)
            old = store.summary(row)
            made = Summary(base=base.summary, upto=base.upto, text=f"to {base.upto}", since=base.upto)
            if undo and old is not None:
                made = msgspec.structs.replace(old, undone=old.version, base=old.base)
            calls = [Call("summary", cost=Decimal("0.1"))]
            return store.swap_summary(key(name), base, made, self.now, calls)

        self.both(act)

    @rule(name=names, later=st.sampled_from([0.0, 40.0]))
    def ask(self, name, later):
        """Ask for a job."""

        def act(store, key):
            if store.thread(key(name)) is not None:
                store.ask(key(name), Work("compact", self.now + later, "spec"), self.now)

        self.both(act)

    @rule(limit=st.integers(1, 2), name=st.none() | names)
    def claim(self, limit, name):
        """Take jobs."""
        self.claims += 1
        lease = self.lease(f"w{self.claims}")
        self.jobs = [s.claim(lease, limit, None if name is None else s.key_of(*name)) for s in self.stores]
        one, two = ([msgspec.structs.replace(j, key=b"") for j in jobs] for jobs in self.jobs)
        assert sorted(one, key=str) == sorted(two, key=str) or name is None

    @precondition(lambda self: len(self.jobs[0]) == 1 == len(self.jobs[1]))
    @rule(how=st.sampled_from(["finish", "renew", "put off", "park"]))
    def job(self, how):
        """Go on with a job, or end it; perhaps another one has it by now."""
        if self.jobs[0][0].thread_id != self.jobs[1][0].thread_id:
            return
        jobs = dict(zip(map(id, self.stores), (one[0] for one in self.jobs), strict=True))

        def act(store, key):
            job = jobs[id(store)]
            if how == "finish":
                return store.finish(job, self.now)
            if how == "renew":
                return store.renew(job, self.now + 30)
            return store.put_off(job, PARKED if how == "park" else self.now + 5, "Error")

        self.both(act)

    @rule(name=names, position=places, text=st.none() | texts)
    def rewrite(self, name, position, text):
        """Delete or redact."""
        made = None if text is None else new(text)

        def act(store, key):
            row = store.thread(key(name))
            return None if row is None else store.rewrite(row, {position: made}, self.now)

        self.both(act)

    @rule(name=names, stale=st.booleans())
    def embed(self, name, stale):
        """Make the vectors that are missing, from what stands or stood there."""

        def act(store, key):
            row = store.thread(key(name))
            if row is None:
                return None
            base = store.base_of(row, row.head)
            base = msgspec.structs.replace(base, content_version=base.content_version + 1) if stale else base
            places = store.unembedded(row, "m", 3)
            return store.put_vectors(key(name), "m", base, {p: b"v%d" % p if p % 3 else b"" for p in places})

        self.both(act)

    @rule(parent=names, name=names, at=places)
    def fork(self, parent, name, at):
        """Fork."""

        def act(store, key):
            row = store.thread(key(parent))
            return None if row is None else store.fork(row, key(name), name, at, self.now)

        self.both(act)

    @rule(name=names, forks=st.sampled_from(["erase", "keep"]))
    def erase(self, name, forks):
        """Erase."""
        self.both(lambda s, k: s.erase(k(name), self.now, forks=forks))

    @rule(name=names, on=st.booleans(), whole=st.booleans())
    def hold(self, name, on, whole):
        """Forbid removals from a thread or from all of an owner, or allow them again."""

        def act(store, key):
            owner = name[0] if whole else None
            scope = store.owner_key(name[0]) if whole else key(name)
            return store.hold(scope, self.now, "r", owner=owner) if on else store.release(scope, self.now, owner=owner)

        self.both(act)

    @rule(name=names)
    def mask(self, name):
        """A mask over all but the entries."""

        def act(store, key):
            row = store.thread(key(name))
            done = None if row is None else store.rewrite(row, {}, self.now, mask=lambda text: text.replace("x", "y"))
            return None if done is None else (int(done), done.receipt.rows)

        self.both(act)

    @rule(name=names, stale=st.booleans())
    def drop_texts(self, name, stale):
        """What the summary covers goes."""

        def act(store, key):
            row = store.thread(key(name))
            if row is None:
                return None
            done = store.drop_texts(msgspec.structs.replace(row, updated=row.updated - stale), self.now)
            return None if done is None else done.rows

        self.both(act)

    @rule(before=st.sampled_from([0.0, 1000.0, 2000.0]), closed=st.booleans())
    def retain(self, before, closed):
        """What retention would take goes."""

        def act(store, key):
            rows = [s.row for s in store.standing(Cut(self.now, before, before, closed), b"", 99)]
            done = store.erase_due([(row, Note()) for row in rows], self.now)
            return sorted((row.owner, row.thread_id, sorted(r.rows.items()), len(r.forks)) for row, r in done)

        self.both(act)

    @invariant()
    def alike(self):
        """Both hold the same, down to the last column."""
        one, two = map(_everything, self.stores)
        assert one == two


def _everything(store):
    out = []
    for name in NAMES:
        key = store.key_of(*name)
        row = store.thread(key)
        out.append([_comparable(row), store.state(key), store.pins(key), _comparable(store.turns(key))])
        out += [store.summaries(key), None if row is None else store.summary(row)]
        out += [[msgspec.structs.replace(j, key=b"") for j in store.jobs(key)], store.spent(key, "", 0.0)]
        out += [store.spent(None, name[0], since) for since in (0.0, 1030.0)]
        if row is not None:
            entries = store.range(row, 0, 99, hidden=True)
            assert [e.position for e in entries] == list(range(row.head))
            assert entries == list(reversed(store.tail(row, 99, 99, hidden=True)))
            out += [entries, store.range(row, 0, 99), store.find(row, ["x"])]
            out += [store.vectors(row, "m", 5), store.unembedded(row, "m", 5)]
            out += [sorted(store.holding(row, *kin(w), before, 99)) for w in ("concluido", "x") for before in (4, 99)]
            out += [sorted(h.entry.position for h in store.search([w], key, None, 99)) for w in ("ola", "退货")]
    names = {store.key_of(*name): name for name in NAMES} | {store.owner_key(name[0]): name[0] for name in NAMES}
    out.append(sorted((str(names[one.scope]), one.since, one.owner) for one in store.holds()))
    acts = [(one.at, one.action, str(names[one.scope]), sorted(one.counts.items())) for one in store.audit(1000)]
    out += [sorted(acts), store.audit_check()]
    out.append(sorted((o, t, c.input, c.turn or 0) for o, t, c in store.calls(None)))
    out += [sorted((h.thread_id, h.owner, h.entry.position) for h in store.search([w], None, None, 999))
            for w in ("ola", "退货", "concluido")]  # fmt: skip
    return out


def _comparable(value):
    """What both stores must agree on; keys are made with each one's own secret."""
    if isinstance(value, list):
        return [_comparable(one) for one in value]
    if isinstance(value, Begun):
        return ("begun", _comparable(value.thread), value.turn.epoch, value.turn.first, value.turn.last, value.state,
                value.replayed, value.rejoined)  # fmt: skip
    if isinstance(value, Busy):
        return ("busy", value.holder, value.lease_until, value.same_key)
    if hasattr(value, "content_version"):
        return msgspec.structs.replace(value, key=b"", parent=value.parent is not None)
    if hasattr(value, "beyond"):
        return (value.rows, value.forks, value.pending)
    assert not isinstance(value, Message)
    return value


TestTwoStores = TwoStores.TestCase
TestTwoStores.__doc__ = "After any run of operations SQLite holds what the reference holds."
TestTwoStores.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.timeout(300)
@pytest.mark.skipif(bool(SHARDS), reason="empties the tables by name")
def test_postgres_holds_what_the_reference_holds(postgres_url):
    """After any run of operations PostgreSQL holds what the reference holds, down to the last column."""
    import psycopg

    from novelo.stores.postgres import Database as Server
    from novelo.stores.postgres import PostgresStore
    from novelo.stores.postgres.texts import TABLES

    store = PostgresStore(Server(postgres_url))
    schema, options = store.database.settings.schema, store.database.settings.options
    tables = ", ".join(f'"{schema}".{table}' for table in TABLES if table != "meta")

    class OnServer(TwoStores):
        """The same with another second store, emptied for each run."""

        def __init__(self):
            super().__init__()
            self.stores[1].close()
            with psycopg.connect(**options) as connection:
                connection.execute(f"TRUNCATE {tables}")
            self.stores[1] = store

        def teardown(self):
            """The store goes on to the next run."""
            self.stores[0].close()

    try:
        run_state_machine_as_test(OnServer, settings=settings(TestTwoStores.settings, max_examples=12))
    finally:
        store.close()
