"""Which columns of which statements hold content: the whole of what is encrypted, as data.

Each statement of `queries.sql`, `checkpoints.sql` and `documents.sql`, of both engines, stands in exactly one of the
tables below, and a test holds that; one that stands in none is refused at run time. What a statement takes (`takes`) is
hidden before it runs, what it gives (`gives`) is revealed before anybody sees it. A place says which other columns a
hidden one belongs to: a number is a column of the same arguments or row, `~number` an argument where a row is read.
"""

from __future__ import annotations

from typing import NamedTuple

BYTES, TEXT, NAME, MARK = "bytes", "text", "name", "mark"


class Column(NamedTuple):
    """A column with content: where it stands, what it is called, how it is hidden, and what it belongs to."""

    at: int
    name: str
    form: str = BYTES
    place: tuple[int, ...] = ()


class Seal(NamedTuple):
    """Eight bytes over the stored columns of a row: of which kind, over which columns, and where they stand.

    Before the columns some arguments may count.
    """

    kind: str
    first: int
    stop: int
    at: int
    before: tuple[int, ...] = ()


class Rule(NamedTuple):
    """One statement. `thread`: where its key stands, likewise; names: where owner and id of a row's thread stand."""

    takes: tuple[Column, ...] = ()
    gives: tuple[Column, ...] = ()
    thread: int = ~0
    owner: int | None = None  # an argument that names an owner
    names: tuple[tuple[int, str], ...] = ()
    taken: Seal | None = None
    given: Seal | None = None


# ---------------------------------------------------------------------------------------------- pieces of rows
def _turn(at: int = 0) -> tuple[Column, ...]:
    return (
        Column(at + 6, "turns.key", NAME),
        Column(at + 7, "turns.request", BYTES, (at + 0, at + 6)),
        Column(at + 9, "turns.manifest", BYTES, (at + 0,)),
    )


def _checkpoint(at: int = 0) -> tuple[Column, ...]:
    return (Column(at + 8, "checkpoints.body", BYTES, (at + 0, at + 1)),)


_TURN = Rule(gives=_turn(), given=Seal("turn", 0, 8, 8))
_CHECKPOINT = Rule(gives=_checkpoint(), given=Seal("checkpoint", 0, 9, 9))
_LISTED = Rule(
    gives=_checkpoint(3), thread=0, names=((1, "owner"), (2, "thread_id")), given=Seal("checkpoint", 3, 12, 12)
)
_WRITTEN = Rule(
    gives=(Column(2, "checkpoint_writes.body", BYTES, (~1, ~2, 0)),), given=Seal("checkpoint writes", 0, 3, 3, (1, 2))
)
_ALL_WRITTEN = Rule(
    gives=(Column(4, "checkpoint_writes.body", BYTES, (0, 1, 2)),), given=Seal("checkpoint writes", 0, 5, 5)
)
_VALUE = Rule(
    gives=(Column(1, "checkpoint_values.hash", MARK), Column(3, "checkpoint_values.body", BYTES, (0, 1))),
    given=Seal("checkpoint value", 0, 5, 5),
)
_CALLS = Rule(
    gives=(Column(20, "calls.raw", BYTES, (3,)),), thread=2, names=((0, "owner"), (1, "thread_id")),
    given=Seal("call", 4, 21, 21),
)  # fmt: skip
_JOBS = Rule(
    gives=(Column(5, "work.spec", TEXT, (1,)), Column(6, "work.error", TEXT, (1,))), thread=0,
    names=((7, "owner"), (8, "thread_id")),
)  # fmt: skip

RULES: dict[str, Rule] = {
    # threads; their rows are read in `cipher.py`
    "append": Rule(takes=(Column(9, "threads.state"),)),
    "spenders": Rule(owner=0),
    "keys_of_owner": Rule(owner=0),
    "heirs": Rule(thread=0, names=((1, "thread_id"),)),
    # turns
    "turn_by_key": _TURN._replace(takes=(Column(1, "turns.key", NAME),)),
    "turn": _TURN,
    "turns": _TURN,
    "new_turn": Rule(takes=(Column(4, "turns.key", NAME), Column(5, "turns.request", BYTES, (1, 4)))),
    "close_turn": Rule(takes=(Column(4, "turns.manifest", BYTES, (1,)),)),
    "set_manifest": Rule(takes=(Column(2, "turns.manifest", BYTES, (1,)),)),
    "turns_kept": Rule(gives=(Column(1, "turns.manifest", BYTES, (0,)), Column(2, "turns.draft", BYTES, (0,)))),
    "mask_turn": Rule(takes=(Column(2, "turns.manifest", BYTES, (1,)), Column(3, "turns.draft", BYTES, (1,)))),
    "draft": Rule(gives=(Column(0, "turns.draft", BYTES, (~1,)),)),
    "keep_draft": Rule(takes=(Column(2, "turns.draft", BYTES, (1,)),)),
    # the ledger of usage
    "call": Rule(takes=(Column(18, "calls.raw", BYTES, (1,)),), taken=Seal("call", 2, 19, 19)),
    "last_call": Rule(gives=(Column(17, "calls.raw", BYTES, (0,)),), given=Seal("call", 1, 18, 18)),
    "calls_of_thread": _CALLS,
    "calls_of_owner": _CALLS._replace(owner=0),
    "calls_of_all": _CALLS,
    # entries; their rows are read in `cipher.py`
    "position_of_id": Rule(takes=(Column(1, "entries.id", NAME),)),
    "positions_of_id": Rule(takes=(Column(1, "entries.id", NAME),)),
    # vectors, summaries, jobs
    "put_vector": Rule(takes=(Column(3, "vectors.vector", BYTES, (1, 2)),)),
    "vectors": Rule(gives=(Column(1, "vectors.vector", BYTES, (~1, 0)),)),
    "summary": Rule(gives=(Column(1, "summaries.body", BYTES, (0,)),)),
    "summaries": Rule(gives=(Column(1, "summaries.body", BYTES, (0,)),)),
    "new_summary": Rule(takes=(Column(3, "summaries.body", BYTES, (1,)),)),
    "set_summary": Rule(takes=(Column(2, "summaries.body", BYTES, (1,)),)),
    "ask_work": Rule(takes=(Column(3, "work.spec", TEXT, (1,)),)),
    "due_work": _JOBS,
    "all_work": _JOBS,
    "work_of": _JOBS,
    "work_again": Rule(takes=(Column(6, "work.error", TEXT, (1,)),)),
    # checkpoints
    "by_id": _CHECKPOINT,
    "by_number": _CHECKPOINT,
    "newest": _CHECKPOINT,
    "below": _CHECKPOINT,
    "all_of_thread": _CHECKPOINT,
    "of_namespace": _LISTED,
    "of_thread": _LISTED,
    "of_owner": _LISTED._replace(owner=0),
    "of_runs": Rule(owner=1),
    "lapsed": Rule(thread=0, names=((1, "owner"), (2, "thread_id"))),
    "put": Rule(takes=(Column(9, "checkpoints.body", BYTES, (1, 2)),), taken=Seal("checkpoint", 1, 10, 10)),
    "written": _WRITTEN,
    "written_by": _WRITTEN,
    "all_written": _ALL_WRITTEN,
    "written_below": Rule(
        gives=(Column(3, "checkpoint_writes.body", BYTES, (~1, 0, 1)),), given=Seal("checkpoint writes", 0, 4, 4, (1,))
    ),
    "write": Rule(
        takes=(Column(5, "checkpoint_writes.body", BYTES, (1, 2, 3)),), taken=Seal("checkpoint writes", 1, 6, 6)
    ),
    "masked_value": Rule(
        takes=(Column(2, "checkpoint_values.hash", MARK), Column(4, "checkpoint_values.body", BYTES, (1, 2)))
    ),
    "value": _VALUE,
    "all_values": _VALUE,
    "value_by_hash": Rule(takes=(Column(1, "checkpoint_values.hash", MARK),)),
    "keep": Rule(takes=(Column(2, "checkpoint_values.hash", MARK), Column(4, "checkpoint_values.body", BYTES, (1, 2)))),
    "became": Rule(
        takes=(Column(4, "checkpoint_values.hash", MARK), Column(2, "checkpoint_values.body", BYTES, (1, 4)))
    ),
    "cut": Rule(takes=(Column(4, "checkpoint_values.hash", MARK), Column(3, "checkpoint_values.body", BYTES, (1, 4)))),
}
# Statements that look for bytes inside of what is hidden: all rows come, of a statement of the same columns or more,
# and are looked through behind the cipher. Where the bytes stand among the arguments, where they are looked for in a
# row, and which columns are given.
QUOTING: dict[str, tuple[str, Rule, tuple[int, ...], int, tuple[int, ...]]] = {
    "quoting": ("quoting", Rule(gives=(Column(1, "turns.manifest", BYTES, (0,)),)), (2, 3, 4), 1, (0, 1)),
    "quoting_values": ("all_values", _VALUE, (1,), 3, (0, 3)),
    "quoting_writes": ("all_written", _ALL_WRITTEN, (1,), 4, tuple(range(6))),
}
# Read or written by methods of their own in `cipher.py`.
BY_HAND = frozenset(
    """
    thread ancestor thread_locked threads threads_of_owner new_thread fork set_facts entry set_body entry_at tail range
    move_turn set_turn move_vectors vectors_between erased act standing shorten
    shorten_write
    """.split()  # noqa: SIM905
)
# They take and give keys, numbers, moments, states and counts only. The last lines are those of the search index, which
# is off: these find nothing, and take out what nobody put in.
FREE = frozenset(
    """
    any_entry any_thread take reseal retake no_turn reaped add close_ranks reopen_turn interrupt_turn renew lock
    hidden_between hidden_below hide_range show_range mark_hidden pins pin unpin mark_pinned sharing forks
    content_changed used embedded drop_vectors children cut_fork newest_summary use_summary drop_summaries claim_work
    renew_work work_done next_work left_over is_left_over any_left_over none_left_over vault_facts
    keep_vault_fact vault_seen see_vault next_wash
    hold release held all_held spending keep_spent kept_spent forget_spent next_act acts last_chain
    audit audit_from weights set_term set_dropped once texts_below
    newest_id place_of line ancestors drop drop_writes last_value drop_value versions gone as_entry fences any
    waiting waiting_between unindex_waiting thread_number indexed unindex unindex_entry none_waits take_in find_words
    find_words_of index_words rows_of_words words_between
    """.split()  # noqa: SIM905
)
# A full-text index would say in clear what was said.
REFUSED = frozenset(("index_entry", "number_thread", "next_number"))
# Collections of documents are not encrypted: they are written only where that was asked for.
CLEAR = frozenset(("new_collection", "put_source", "put_chunk", "index_chunk", "put_chunk_vector"))
DOCUMENTS = frozenset(
    """
    all_matches chunk chunk_vectors chunks_of collection collection_locked collections drop_chunk_vectors drop_chunks
    drop_collection drop_source drop_vector frequency matches seal_chunk set_collection source sources unindex_chunk
    next_chunk next_vector vector_numbers without_vector words_of
    """.split()  # noqa: SIM905
)
