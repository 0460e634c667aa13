"""`novelo chat`: a conversation in the terminal, kept in a thread."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

import novelo
from novelo.cli.answers import last_searched, opened, print_sources, remembered, tell_query
from novelo.cli.common import console, default_model, find_thread, open_database, say
from novelo.cli.documents import print_passages
from novelo.cli.lines import Lines, put
from novelo.cli.phrases import said
from novelo.cli.words import language, word
from novelo.context import parse
from novelo.context.spec import name_of
from novelo.documents import Documents
from novelo.retrieval import Answered

ENDS = ("exit", "quit", "sair", "退出", "/exit", "/quit", "/sair", "/退出")


class Ended(Exception):
    """The person has left."""


class Chat:
    """One terminal session: the thread, the model, and the commands that begin with a slash."""

    def __init__(
        self,
        memory: novelo.Memory,
        thread: novelo.Thread,
        model: Any,
        *,
        policy: Any,
        lang: str,
        stream: bool,
        name: str,
        docs: Documents | None = None,
        show_query: bool = False,
        database: str | None = None,
    ) -> None:
        self.memory, self.thread, self.model = memory, thread, model
        self.policy, self.lang, self.stream, self.model_name = policy, lang, stream, name
        self.docs, self.show_query, self.database = docs, show_query, database
        self.out = console()

    def tell(self, name: str, **facts: object) -> None:
        """A line of talk in the person's language."""
        say(word(name, self.lang, **facts))

    # ------------------------------------------------------------------------------------------ asking
    def ask(self, question: str) -> None:
        """One turn: the question, the streamed answer; Ctrl-C stops the answer only."""
        self._run(self.thread.turn(question))

    def _run(self, turn: novelo.LiveTurn) -> None:
        found: Answered | None = None
        lines = Lines(sys.stdout)
        try:
            with turn:
                if self.docs is not None:
                    found = self._answered(turn, self.docs, lines)
                elif self.stream:
                    turn.ask(self.model, policy=self.policy, on_text=lines.write)
                else:
                    lines.write(turn.ask(self.model, policy=self.policy).text)
                lines.end()
        except KeyboardInterrupt:
            lines.end()
            self.tell("stopped")
        except novelo.LimitReached as error:
            self.tell("limit", limit=error.limit)
        except (novelo.ModelFailed, novelo.ContextTooSmall) as error:
            self.tell("failed", error=str(error).rstrip("."))
        finally:
            lines.end()
            sys.stdout.write("\n")
            sys.stdout.flush()
        if found is not None:
            print_sources(found, self.lang)
            if not found.text.strip():
                self.tell("blank")

    def _answered(self, turn: novelo.LiveTurn, docs: Documents, lines: Lines) -> Answered:
        """An answer from documents; whole where nothing is streamed."""
        wrote: list[str] = []

        def write(piece: str) -> None:
            wrote.append(piece)
            lines.write(piece)

        found = turn.answer(
            self.model, docs, policy=self.policy, on_text=write if self.stream else None,
            on_query=(lambda retrieved: tell_query(retrieved, self.lang)) if self.show_query else None,
        )  # fmt: skip
        if not wrote:
            lines.write(found.text)
        return found

    # ------------------------------------------------------------------------------------------ commands
    def command(self, line: str) -> None:
        """Run one line that begins with a slash."""
        name, _, rest = line[1:].partition(" ")
        found = getattr(self, f"do_{name}", None)
        if found is None:
            return self.tell("unknown", command=f"/{name}")
        try:
            found(rest.strip())
        except novelo.NoveloError as error:
            say(str(error))

    def do_help(self, _: str) -> None:
        """What there is."""
        put(word("help", self.lang))

    def do_context(self, question: str) -> None:
        """What the next call would send, as a grid and a table, and why."""
        from novelo.cli.grid import picture

        found = self.thread.context(question or None, policy=self.policy)
        self.out.print(picture(found, self.out.width, self.lang))
        for line in [*found.explain().splitlines(), *last_searched(self.thread)]:
            self.out.print(said(line, self.lang), markup=False)

    def do_docs(self, words: str) -> None:
        """The documents of this chat, or what is found in them."""
        if self.docs is None:
            return self.tell("no_documents")
        if words:
            return print_passages(self.docs.search(words), words)
        for source in self.docs.list():
            print(f"{source.chunks:>4}  {source.source}  {source.title}")

    def do_tokens(self, _: str) -> None:
        """Tokens of the next context, by part."""
        found = self.thread.context(policy=self.policy)
        print(f"{found.tokens} tokens, {len(found)} of {len(self.thread)} messages ({self.memory.counter.name})")

    def do_usage(self, _: str) -> None:
        """What the thread has spent, by purpose."""
        from novelo.cli.usage import hint, priced, table

        ledger = priced(self.thread.usage().rows)
        self.out.print(table(ledger.by("purpose"), "purpose", ledger.total))
        if told := hint(ledger):
            say(told)

    def do_state(self, given: str) -> None:
        """The custom state, or a key of it set."""
        if given:
            key, equals, value = given.partition("=")
            if not equals or not key.strip():
                raise novelo.InvalidSpec("expected /state key=value")
            self.thread.state[key.strip()] = value.strip()
        for key, value in self.thread.state.items():
            print(f"{key} = {value}")

    def do_search(self, words: str) -> None:
        """Messages of this thread."""
        hits = self.thread.search(words)
        for hit in hits:
            print(f"{hit.entry.position:>4}  {hit.entry.role}: {' '.join(hit.text.split())[:160]}")
        if not hits:
            self.tell("nothing_found")

    def do_show(self, _: str) -> None:
        """The transcript."""
        from novelo.cli.show import print_entries

        print_entries(self.thread.messages())

    def do_undo(self, _: str) -> None:
        """Take the last turn out of the context."""
        visible = list(self.thread.messages(limit=400, newest_first=True, hidden=False))
        last = next((e for e in visible if e.role == "user"), None)
        if last is None:
            return self.tell("nothing_said")
        self.thread.hide([e.position for e in visible if e.position >= last.position])
        self.tell("undone")

    def do_retry(self, _: str) -> None:
        """Ask the last question again."""
        self._run(self.thread.retry())

    def do_fork(self, thread_id: str) -> None:
        """Go on in a thread of its own that shares the past."""
        self.thread = self.thread.fork(thread_id=thread_id or None)
        self.tell("forked", thread=self.thread.thread_id)

    def do_export(self, path: str) -> None:
        """Write the thread to a file; .json is the simple form, anything else our own."""
        if not path:
            raise novelo.InvalidSpec("expected /export FILE")
        count = self.thread.export_file(path, "simple" if path.endswith(".json") else "novelo")
        self.tell("exported", count=count, path=path)

    def do_new(self, thread_id: str) -> None:
        """Begin another thread."""
        self._switch(self.memory.thread(thread_id or self.memory.new_id(), owner=self.thread.owner))

    def do_resume(self, thread_id: str) -> None:
        """Go to a thread that is there; without an id the last used ones are listed."""
        if thread_id:
            return self._switch(find_thread(self.memory, thread_id, self.thread.owner))
        for row in self.memory.threads(owner=self.thread.owner, limit=10):
            print(f"{row.thread_id}  {row.head}  {row.title}")

    def _switch(self, thread: novelo.Thread) -> None:
        self.thread = thread
        self.tell("switched", thread=thread.thread_id, count=len(thread))
        if self.docs is None and (name := remembered(self.memory, thread)) is not None:
            self.docs = opened(self.memory, (), name, thread.owner, self.lang)

    def do_policy(self, spec: str) -> None:
        """Show or change how contexts are composed."""
        if spec:
            self.policy = parse(spec)
        self.tell("policy", policy=name_of(parse(self.policy) if self.policy is not None else self.memory.policy))

    def do_compact(self, focus: str) -> None:
        """Summarize the older part now; words behind it say what to look at."""
        from novelo.cli.compaction import print_summaries

        made = self.thread.compact(focus or None, policy=self.policy)
        if made is None:
            return self.tell("nothing_to_compact")
        print_summaries([made])

    def do_why(self, text: str) -> None:
        """Who said something, and whether the model still has it."""
        print(self.thread.why(text, policy=self.policy).explain())

    # ------------------------------------------------------------------------------------------ the loop
    def talk(self, read: Callable[[], str]) -> None:
        """Read lines until the person leaves."""
        while True:
            try:
                line = read()
                if line.strip().lower() in ENDS:
                    break
                if line.strip().startswith("/"):
                    self.command(line.strip())
                elif line.strip():
                    self.ask(line)
            except KeyboardInterrupt:  # at the prompt, in a command, or just behind an answer
                self.tell("leave")
            except EOFError:
                break
        if len(self.thread):  # else nothing was kept: a thread begins with its first message
            self.tell("goodbye", thread=self.thread.thread_id, command=self._again())

    def _again(self) -> str:
        """The command that comes back to the thread, with what it needs besides the defaults and the environment's."""
        parts = ["novelo", "chat", "--thread", self.thread.thread_id]
        for option, value in (
            ("--owner", self.thread.owner), ("-d", self.database), ("-C", self.docs and self.docs.name),
        ):  # fmt: skip
            parts += [option, value] if value else []
        return shlex.join(parts)


def chat(
    model: Annotated[
        str | None,
        typer.Option("-m", "--model", help="offline, openai:NAME, langchain:PROVIDER:NAME, local, or local:FILE.gguf."),
    ] = None,
    system: Annotated[str | None, typer.Option("-s", "--system", help="The system prompt.")] = None,
    last: Annotated[bool, typer.Option("-c", "--continue", help="Go on with the last thread.")] = False,
    thread_id: Annotated[str | None, typer.Option("--thread", "--cid", help="The thread's id.")] = None,
    policy: Annotated[
        str | None, typer.Option("-p", "--policy", help="How contexts are composed, such as window:10turns.")
    ] = None,
    database: Annotated[
        str | None, typer.Option("-d", "--database", help="A file, or an address such as sqlite:///chat.db.")
    ] = None,
    owner: Annotated[str, typer.Option(help="Whose threads.")] = "",
    lang: Annotated[str | None, typer.Option(help="pt, zh or en; else the locale's.")] = None,
    limit: Annotated[
        list[str] | None, typer.Option("--limit", help="What may be spent: thread:200000tokens, owner:5usd/day.")
    ] = None,
    no_stream: Annotated[bool, typer.Option("--no-stream", help="Whole answers only.")] = False,
    docs: Annotated[
        list[Path] | None, typer.Option("--docs", help="Answer from these files and folders; may stand several times.")
    ] = None,
    collection: Annotated[
        str | None,
        typer.Option(
            "-C",
            "--collection",
            help="Answer from this collection; with --docs, put them there. A thread remembers its own; '' is none.",
        ),
    ] = None,
    show_query: Annotated[bool, typer.Option("--show-query", help="Show what is searched for each question.")] = False,
) -> None:
    """Chat in the terminal; everything is kept, and with -c the next session goes on where this one ended.

    Without -m the model is MODEL_NAME when OPENAI_API_KEY is set (.env is read), else the built-in offline one, which
    needs no network and only quotes. Lines from a pipe are asked one by one.

    Examples: novelo chat -c -p "strip_media + budget:8000" · novelo chat --docs manual/ --show-query
    """
    from novelo.connect import model as model_of
    from novelo.models.env import load_environment

    load_environment()
    name = model or default_model()
    chosen = None if policy is None else parse(policy)
    asked = model_of(name)
    with open_database(
        database, policy=chosen or "buffer", system=system, summarizer=asked, limits=limit or ()
    ) as memory:
        if last and thread_id is None:
            rows = memory.threads(owner=owner, limit=1)
            thread_id = rows[0].thread_id if rows else None
        thread = memory.thread(thread_id or memory.new_id(), owner=owner)
        spoken = language(lang)
        if not docs and collection is None:
            collection = remembered(memory, thread)
        answers = opened(memory, docs or (), collection or "default", owner, spoken) if docs or collection else None
        session = Chat(
            memory, thread, asked, policy=chosen, lang=spoken, stream=not no_stream, name=name, docs=answers,
            show_query=show_query, database=database,
        )  # fmt: skip
        session.tell("hello", thread=thread.thread_id, model=name)
        session.talk(_reader())


def _reader() -> Callable[[], str]:
    """Lines with editing and history on a terminal, plain lines from a pipe; a backslash at the end goes on."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return lambda: _joined(_plain_lines())
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import InMemoryHistory
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

    keys = KeyBindings()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    session: PromptSession[str] = PromptSession(history=InMemoryHistory(), key_bindings=keys)

    def lines() -> Iterator[str]:
        yield session.prompt("› ")
        while True:
            yield session.prompt("… ")

    return lambda: _joined(lines())


def _plain_lines() -> Iterator[str]:
    while line := sys.stdin.readline():
        yield line.rstrip("\n")


def _joined(lines: Iterator[str]) -> str:
    """One question from lines that end with a backslash, and the first that does not.

    Raises:
        EOFError: no line is left.
    """
    said: list[str] = []
    for line in lines:
        if not line.endswith("\\"):
            return "\n".join([*said, line])
        said.append(line[:-1])
    if said:
        return "\n".join(said)
    raise EOFError
