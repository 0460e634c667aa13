"""The ledger made true again: what was erased goes once more, before a database serves that has not seen its notes.

Notes are taken in their order, each as its erasure was made: a thread goes, an entry is deleted, and what a pattern had
masked is looked for by its fingerprints in all that is kept of the thread, and masked by the code that masked it first.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from novelo.errors import StorageReadOnly, StorageUnavailable, Undecipherable
from novelo.masking import Mask, masked_message
from novelo.stores.base import NewEntry, ThreadRow
from novelo.stores.search import indexed_words
from novelo.stores.vaults.base import COLLECTION, ENTRY, KEPT, LINK, PATTERN, THREAD, Erased
from novelo.stores.vaults.guard import CREATED, GuardedDatabase
from novelo.stores.vaults.prints import Prints

STATUS = 12  # where a thread's row says whether it was erased
MADE = 11  # where a collection's says when it was made
log = logging.getLogger("novelo")


def replay(store: Any, database: GuardedDatabase, seen: int, destroy: Callable[[bytes, int], Any] | None) -> int:
    """Erase again what the ledger says, behind the note that the database has seen; how many came back.

    Args:
        store: over the database, which nobody else uses yet.
        destroy: destroys the data keys of a thread up to a version.
    Raises:
        StorageReadOnly: something must be erased, and the database cannot be written.
    """
    notes = database.vault.erased(seen)
    if not notes:
        return 0
    database.replaying = True
    try:
        done = _all_again(store, database, _steps(notes))
    finally:
        database.replaying = False
    for note in notes:
        if destroy is not None and note.kind in (THREAD, KEPT) and note.version:
            destroy(note.key, note.version)
    if not database.read_only:
        with database.inner.writing() as db:
            db.run("see_vault", (notes[-1].number,))
    if done:
        log.warning("%d erasures were made again by the ledger: of a restored backup, or of a process that died", done)
        if not store.scrub():
            log.warning("traces of them are still in the files: a reader holds the log")
    return done


def _all_again(store: Any, database: GuardedDatabase, steps: list[list[Erased]]) -> int:
    """Make again what is back; how many erasures."""
    if database.read_only:
        left = sum(_is_back(database, note) for step in steps for note in step)
        if left:
            raise StorageReadOnly(f"{left} erased things may be in the database again, and it cannot be written")
    places = defaultdict[bytes, list[int]](list)
    for note, *_ in steps:
        if note.kind == ENTRY and note.mark:
            places[note.key].append(note.place)
    done = 0
    for step in steps:  # each is looked at when its turn comes: a fork may have got an entry meanwhile
        back = [note for note in step if _is_back(database, note)]
        if back and back[0].kind == PATTERN:
            done += _mask_again(store, database, back, places[back[0].key])
        elif back:
            _again(store, back[0])
            done += 1
    return done


def _steps(notes: list[Erased]) -> list[list[Erased]]:
    """What is to be done, in order: of several notes on one entry the last one, all patterns of a thread together."""
    steps: dict[tuple[Any, ...], list[Erased]] = {}
    for note in notes:
        if note.kind == ENTRY:
            steps.pop((ENTRY, note.key, note.born, note.place), None)
            steps[ENTRY, note.key, note.born, note.place] = [note]
        elif note.kind == PATTERN:
            steps.setdefault((PATTERN, note.key, note.born), []).append(note)
        else:
            steps[(note.number,)] = [note]
    return list(steps.values())


def _is_back(database: GuardedDatabase, note: Erased) -> bool:
    """Whether what was erased is there, or may be, in the thread that was meant."""
    with database.inner.reading() as db:
        if note.kind == COLLECTION:
            found = next(iter(db.run("collection", (note.key,))), None)
            return found is not None and note.means(found[MADE])
        row = next(iter(db.run("ancestor", (note.key,))), None)
        if row is None or row[STATUS] == "erased" or not note.means(row[CREATED]):
            return False
        if note.kind == PATTERN:
            link = next(iter(db.run("last_chain", (note.place,))), (b"",))[0]
            return bytes(link) != note.mark[:LINK]
    if note.kind != ENTRY:
        return True
    with database.reading() as db:
        entry = next(iter(db.run("entry_at", (note.key, note.place))), None)
        return entry is not None and entry[7] is not None and db.mark(note.key, note.place, entry[7]) != note.mark


def _again(store: Any, note: Erased) -> None:
    """Make an erasure again."""
    if note.kind == COLLECTION:
        store.documents.erase(note.key, note.moment)
    elif note.kind == ENTRY:  # it was deleted, or what it was masked with nobody knows
        store.rewrite(_thread(store, note), {note.place: None}, note.moment)
    else:
        store.erase(note.key, note.moment, forks="keep" if note.kind == KEPT else "erase")


def _mask_again(store: Any, database: GuardedDatabase, notes: list[Erased], places: Sequence[int]) -> bool:
    """Mask again what patterns had matched in one thread; whether there was anything."""
    thread = _thread(store, notes[0])
    try:
        mask = _mask(database, notes)
    except Undecipherable as error:
        if getattr(error, "destroyed", False):  # nobody reads the thread any more
            return False
        raise
    done = store.rewrite(thread, _masked(store, thread, mask, places), notes[0].moment, mask=mask)
    return bool(done.receipt.number)


def _thread(store: Any, note: Erased) -> ThreadRow:
    found: ThreadRow | None = store.thread(note.key)
    if found is None:
        raise StorageUnavailable(f"thread {note.key.hex()} went while the ledger was replayed: open the memory again")
    return found


def _mask(database: GuardedDatabase, notes: list[Erased]) -> Mask:
    """What some patterns did, one after the other: a later one may have matched what an earlier one left."""
    with database.reading() as db:
        key = db.print_key(notes[0].key)
    masks = [Prints(note.mark[LINK:], key) for note in notes]

    def mask(text: str) -> str:
        for one in masks:
            text = one(text)
        return text

    return mask


def _masked(store: Any, thread: ThreadRow, mask: Mask, places: Sequence[int]) -> dict[int, NewEntry]:
    """Entries as a mask leaves them; of some places, for an entry that was not masked then is not masked now."""
    out: dict[int, NewEntry] = {}
    for entry in store.entries(thread, [place for place in places if place < thread.head]):
        clean = masked_message(entry.message, mask)
        if clean is not entry.message:
            out[entry.position] = NewEntry(clean, 0, indexed_words(clean) if store.indexed else "")
    return out
