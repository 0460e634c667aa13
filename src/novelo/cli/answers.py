"""`novelo chat --docs`: the documents of a chat, what was searched, and the sources under an answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import novelo
from novelo.cli.common import say
from novelo.cli.documents import BAD, Telling, no_collection
from novelo.cli.lines import put
from novelo.cli.phrases import said
from novelo.cli.words import decided, word
from novelo.context import Retrieved
from novelo.context.manifest import Manifest, searched
from novelo.documents import Documents
from novelo.passages import place_of
from novelo.retrieval import Answered

LOOKED_BACK = 50  # turns in which the collection of a thread's answers is looked for
SHOWN = 0.1  # weight of a query that is shown while the answer is awaited


def opened(memory: novelo.Memory, paths: Sequence[Path], collection: str, owner: str, lang: str) -> Documents:
    """The collection of a chat, with what is new in these paths; vectors are made behind the chat.

    Raises:
        InvalidSpec: a path is not there.
        typer.Exit: no path is given, and there is no such collection; which there are is told.
    """
    for path in paths:
        if not path.exists():
            raise novelo.InvalidSpec(f"--docs {path}: there is no such file or folder")
    docs = memory.documents(collection, owner)
    if paths:
        with Telling("reading", "files") as told:
            done = docs.ingest(paths, told)
        counts = {name: len(getattr(done, name)) for name in ("added", "changed", "same", "removed")}
        say(word("read", lang, seconds=f"{done.seconds:.1f}", **counts))
        for name, what in list(done.bad.items())[:BAD]:
            say(word("not_read", lang, path=name, what=said(what, lang)))
    row = docs.row
    if row is None and not paths:
        no_collection(memory, collection, owner)
    say(word("documents", lang, sources=row.sources if row else 0, passages=row.chunks if row else 0))
    if row and docs.embedder is not None and (left := row.chunks - row.vectors) > 0:
        say(word("by_words", lang, count=left))
        if not paths:  # else they are made since the files were read
            memory.indexes.embed_behind(docs)
    return docs


def remembered(memory: novelo.Memory, thread: novelo.Thread) -> str | None:
    """The collection that a thread's newest answer from documents came from; None if there was none, or it is gone."""
    for turn in thread.turns(LOOKED_BACK):
        manifest = memory.unpack_manifest(turn.manifest)
        name = manifest.retrieved.collection if manifest is not None and manifest.retrieved is not None else ""
        if name:
            return name if memory.documents(name, thread.owner).row is not None else None
    return None


def tell_query(retrieved: Retrieved, lang: str) -> None:
    """What is searched for a question, and why; on stderr, as talk. `/context` shows the weak queries too."""
    say(word("question", lang, decision=decided(retrieved.decision, lang)))
    for text, weight in retrieved.queries:
        if weight >= SHOWN:
            say(word("searched", lang, query=" ".join(text.split())) + ("" if weight == 1 else f" (× {weight:g})"))


def print_sources(found: Answered, lang: str) -> None:
    """The sources under an answer, by the numbers that it names them with."""
    if not found.sources:
        return
    print(word("sources", lang))
    for number, passage in enumerate(found.passages, 1):
        if any(passage is one or passage == one for one in found.sources):
            put(f"  [{number}] {place_of(passage) or word('untitled', lang)}")


def last_searched(thread: novelo.Thread) -> list[str]:
    """What was searched for the newest turn and found, a line each; nothing if that was no search."""
    newest = next(iter(thread.turns(1)), None)
    manifest: Manifest | None = None if newest is None else thread.memory.unpack_manifest(newest.manifest)
    return [] if manifest is None or manifest.retrieved is None else searched(manifest)
