"""T25: keys, passwords and what was said stand in no log, repr, error or span, whatever goes wrong; at level DEBUG."""

from __future__ import annotations

import base64
import logging
import time
import traceback

import pytest

pytest.importorskip("cryptography")

import novelo
from fix_vaults import Place
from novelo import Message
from novelo.models.base import ModelReply
from novelo.stores.base import Close, Lease, NewEntry, Work
from novelo.usage import Call

SAID = "segredo-que-o-cliente-disse"
PASSWORD = "hunter2-da-base"
KEY = b"a key of which nobody may hear!!"
KEY_TEXT = base64.b64encode(KEY).decode()
OTHER = b"another key that nobody may hear"
SECRETS = (SAID, PASSWORD, KEY_TEXT, KEY_TEXT[:20], repr(KEY)[2:-1], KEY.hex(), base64.b64encode(OTHER).decode())


class Heard:
    """All that was told while something went wrong: log records, errors with their causes, reprs."""

    def __init__(self):
        self.texts, self.errors = [], []

    def tell(self, text):
        """One more text."""
        self.texts.append(text)

    def fails(self, work):
        """Do what must fail, and hear how."""
        try:
            work()
        except Exception as error:
            self.errors.append(error)
            self.texts += [str(error), repr(error), repr(vars(error)), "".join(traceback.format_exception(error))]
        else:
            raise AssertionError(f"nothing failed in {work}")

    def sees(self, *things):
        """How things show themselves."""
        self.texts += [text for one in things for text in (repr(one), str(one), f"{one!r:.9999}")]

    def hits(self):
        """Secrets that were told, each with what told it. A line of source in a traceback is none of ours."""
        lines = [line for text in self.texts for line in text.splitlines() if not line.startswith("    ")]
        found = {
            line.split("(")[0][:80]: (secret, line[:300]) for secret in SECRETS for line in lines if secret in line
        }
        return list(found.values())


@pytest.fixture
def heard(caplog):
    """An ear on everything, at DEBUG."""
    caplog.set_level(logging.DEBUG)
    for name in ("novelo", "psycopg", "psycopg.pool", "langgraph", "langchain_core"):
        caplog.set_level(logging.DEBUG, logger=name)
    found = Heard()
    yield found
    for record in caplog.records:
        found.tell(record.getMessage())
        found.tell(logging.Formatter("%(message)s").format(record))
    assert found.hits() == []
    assert caplog.records is not None and found.texts


def test_addresses(heard, tmp_path, monkeypatch):
    """Addresses that lead nowhere, of the database and of the vault, with a password wherever one can stand."""
    monkeypatch.delenv("PGPASSWORD", raising=False)
    good = f"sqlite:///{tmp_path}/chat.db"
    for url in (
        f"postgresql://ana:{PASSWORD}@127.0.0.1:1/none?timeout=1",
        f"postgresql://ana@127.0.0.1:1/none?timeout=1&password={PASSWORD}",
        f"postgresql://ana:{PASSWORD}@127.0.0.1:none/none",
        f"postgresql://ana:{PASSWORD}@[::1/none",
        f"postgresql://ana:{PASSWORD}@127.0.0.1/none?pool=many",
        f"postgresql://ana:{PASSWORD}@127.0.0.1/none?schema=no-name",
        f"postgresql://ana:{PASSWORD}@127.0.0.1/none?nothing={PASSWORD}",
        f"mysql://ana:{PASSWORD}@127.0.0.1/none",
        f"redis:{PASSWORD}",
    ):
        heard.fails(lambda url=url: novelo.open(url))
        heard.fails(lambda url=url: novelo.open(good, vault=url, key=KEY))


def test_a_server_that_refuses(heard, postgres_url):
    """A server that is there, and lets nobody of that name in."""
    from novelo.stores.postgres.database import Settings

    rest = postgres_url.split("@")[1]
    heard.fails(lambda: novelo.open(f"postgresql://novelo:{PASSWORD}@{rest.replace('/postgres', '/no-such')}"))
    heard.sees(Settings(f"postgresql://novelo:{PASSWORD}@{rest}"))
    with novelo.open(f"postgresql://novelo:{PASSWORD}@{rest}") as memory:
        heard.sees(memory, memory.store, memory.store.database, memory.thread("t"))
        memory.thread("t").append([{"role": "user", "content": SAID}])

        def refused():
            with memory.store.database.writing() as db:
                list(db.run("entry", (b"k", 0, 1, 1, 1, 1, None, SAID, SAID.encode(), None)))

        heard.fails(refused)


def test_keys(heard, tmp_path, monkeypatch):
    """Keys that are wrong, broken, or in the wrong place."""
    place = Place(f"sqlite:///{tmp_path}/chat.db", tmp_path)
    with place.open(key=KEY) as memory:
        memory.thread("t").append([{"role": "user", "content": SAID}])
        database = memory.store.database
        heard.sees(memory, memory.store, database, database.keyring, memory.vault, database.keyring._first)
        heard.sees(database.keyring.current(memory.store.key_of("", "t")))
        heard.fails(lambda: memory.rotate_keys(KEY_TEXT[:-2]))
        heard.fails(lambda: memory.rotate_keys(7))
        heard.fails(lambda: memory.documents("faq").ingest(__file__))
    for key in (OTHER, KEY_TEXT[:40], KEY_TEXT + "x", f"env:{KEY_TEXT}x", [OTHER, KEY_TEXT[:30]], {"key": KEY_TEXT}):
        if key != f"env:{KEY_TEXT}x":  # whoever takes a key for a name of a variable is told that name
            heard.fails(lambda key=key: place.open(key=key))
    monkeypatch.setenv("NOVELO_KEY", KEY_TEXT[:-4])
    heard.fails(lambda: place.open(key="env:NOVELO_KEY"))
    (tmp_path / "key").write_text(KEY_TEXT + KEY_TEXT)
    heard.fails(lambda: place.open(key=f"file:{tmp_path}/key"))


def damaged(place, statement):
    """Alter the file."""
    place.ask(statement)


@pytest.mark.parametrize("encrypted", [True, False])
def test_what_was_said(heard, tmp_path, encrypted):
    """Turns, states and files that break each rule: what was said is told by none of the errors."""
    place = Place(f"sqlite:///{tmp_path}/chat.db", tmp_path)
    opened = place.open(key=KEY) if encrypted else novelo.open(place.url, worker="off")
    with opened as memory:
        thread = memory.thread("t", owner="o")
        with thread.turn(SAID, key="k") as turn:
            said = turn.messages("message")
            heard.sees(turn, turn.context, turn.context.manifest, *said)
            turn.state["said"] = SAID
            turn.reply({"role": "assistant", "content": SAID})
        thread.title, thread.tags, thread.metadata = SAID, (SAID,), {"said": SAID}
        heard.sees(memory, thread, thread.row, *thread.messages(), *thread.turns(), *memory.threads(), thread.state)
        heard.sees(*memory.search(SAID), *thread.search(SAID), memory.search(SAID), memory.threads(search=SAID))
        heard.sees(NewEntry(Message("user", SAID), 1, SAID), Close("done", SAID.encode()), Message("user", SAID))
        heard.sees(Call(raw={"said": SAID}), ModelReply(Message("assistant", SAID)), Work("compact", 0.0, "buffer"))
        heard.sees(thread.context(question=SAID), thread.usage())
        bad = (
            {"role": "nobody", "content": SAID},
            {"role": "tool", "content": SAID},
            {"role": "user", "content": {"type": SAID}},
            {"role": "user", "content": [{"type": "text", "text": 7, "said": SAID}]},
            {"role": "assistant", "tool_calls": [{"id": 1, "function": SAID}]},
            {SAID: SAID},
            SAID,
            7,
        )
        for one in bad:
            try:
                thread.append([one])
            except Exception:
                heard.fails(lambda one=one: thread.append([one]))
        heard.fails(lambda: thread.turn("another " + SAID, key="k").__enter__())
        heard.fails(lambda: thread.context(policy="budget:1", question=SAID))
        heard.fails(lambda: novelo.compose([{"role": "user", "content": SAID * 9}], "budget:2"))
        orphan = [{"role": "tool", "content": SAID, "tool_call_id": "x"}]
        heard.sees(novelo.compose(orphan, "buffer"), novelo.repair(orphan, provider="openai"))
        heard.sees(
            *novelo.check([{"role": "tool", "content": SAID}, {"role": "user", "content": ""}], provider="openai")
        )
        heard.fails(lambda: thread.state.__setitem__("x", object()))
        heard.fails(lambda: thread.delete([99]))
        heard.fails(lambda: setattr(thread, "metadata", {"x": object(), "said": SAID}))
        store = memory.store
        heard.fails(lambda: store.append(thread.key, 99, 0, [NewEntry(Message("user", SAID))], 1.0))

        def failing(request):
            raise RuntimeError(f"the provider repeats {request}")

        memory.on_usage.append(lambda event: failing(SAID))
        with pytest.raises(RuntimeError), thread.turn(SAID) as turn:
            turn.messages()
            raise RuntimeError("of the caller")
        with thread.turn(SAID) as turn:
            turn.reply(SAID)
        with thread.turn(SAID) as turn:
            heard.sees(turn, store.begin)
            held = store.begin(
                thread.key,
                ("o", "t"),
                NewEntry(Message("user", SAID)),
                Lease("x", 9.0, time.time()),
                idempotency=None,
                mode="queue",
            )
            heard.sees(held)
            turn.reply(SAID)
    for statement in (
        "UPDATE entries SET body = substr(body, 1, 20) WHERE position = 0",
        "UPDATE threads SET metadata = substr(metadata, 1, 30)",
        f"UPDATE threads SET title = '{SAID}x'",
    ):
        damaged(place, statement)
        opened = place.open(key=KEY) if encrypted else novelo.open(place.url, worker="off")
        with opened as memory:
            heard.fails(lambda memory=memory: memory.thread("t", owner="o").messages())
            heard.sees(memory.threads().damaged, memory.search(SAID).damaged)
    (tmp_path / "chat.jsonl").write_text(f'{{"role": "user", "content": "{SAID}", ')
    with novelo.open("sqlite://", worker="off") as memory:
        heard.fails(lambda: memory.import_file(tmp_path / "chat.jsonl"))


def test_a_summarizer_that_tells(heard, tmp_path):
    """A summarizer whose error repeats the conversation: neither the job nor the log does."""

    def failing(request):
        raise RuntimeError(f"cannot sum up {SAID}: {request}")

    with novelo.open(
        f"sqlite:///{tmp_path}/chat.db", policy="summarize:4messages,keep=1", summarizer=failing
    ) as memory:
        thread = memory.thread("t")
        for _ in range(4):
            with thread.turn(SAID) as turn:
                turn.reply(SAID)
        memory.work()
        heard.sees(*memory.jobs(), *thread.compactions())
        with pytest.raises(RuntimeError):  # whoever asks for a summary in person gets the summarizer's own error
            thread.compact()


def test_spans(heard):
    """Spans and metrics hold none of it, of a good turn and of one that fails."""
    pytest.importorskip("opentelemetry.sdk")
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    from novelo.integrations.opentelemetry import instrument

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    with novelo.open(
        "sqlite://", policy="summarize:4messages,keep=1", summarizer=lambda r: f"{SAID}.", worker="off"
    ) as memory:
        instrument(memory, provider, capture_content=False)
        for n in range(4):
            with memory.thread("t").turn(f"{SAID} {n}") as turn:
                turn.messages()
                turn.reply(SAID)
        memory.work()
        with pytest.raises(RuntimeError), memory.thread("t").turn(SAID):
            raise RuntimeError(SAID)
    spans = exporter.get_finished_spans()
    assert spans
    for span in spans:
        heard.tell(span.to_json())


def test_the_ear_hears():
    """Control: a secret in an error, in its cause or in a repr is found, or this file would prove nothing."""
    heard = Heard()

    def tells():
        try:
            raise ValueError(SAID)
        except ValueError as error:
            raise RuntimeError("quiet") from error

    heard.fails(tells)
    heard.sees({"key": KEY}, PASSWORD)
    assert {secret for secret, _ in heard.hits()} == {SAID, PASSWORD, repr(KEY)[2:-1]}
