-- thread --
-- All facts of a thread.
SELECT * FROM threads WHERE thread = ?1;

-- ancestor --
-- The same of a thread that another one was forked from.
SELECT * FROM threads WHERE thread = ?1;

-- any_entry --
-- Whether entries are there, though their thread's row is not.
SELECT 1 FROM entries WHERE thread = ?1 LIMIT 1;

-- turn_by_key --
-- The turn of an idempotency key.
SELECT first, number, last, status, epoch, created, key, request, seal, manifest FROM turns WHERE thread = ?1 AND key = ?2;

-- turn --
-- The turn that begins at a position.
SELECT first, number, last, status, epoch, created, key, request, seal, manifest FROM turns WHERE thread = ?1 AND first = ?2;

-- new_thread --
-- A thread is made by its first write; under an erased one's key it begins anew, above its epochs.
INSERT INTO threads (thread, owner, thread_id, created, updated, metadata) VALUES (?1, ?2, ?3, ?4, ?4, ?5)
ON CONFLICT (thread) DO UPDATE SET owner = ?2, thread_id = ?3, status = 'active', created = ?4, updated = ?4, metadata = ?5
WHERE status = 'erased';

-- take --
-- Open a turn: a new epoch, a lease, room for the question, and for the turn's row if it has none yet.
UPDATE threads SET head = head + 1, turns = turns + ?2, running = running + ?3, opening = opening + ?4, epoch = epoch + 1,
  holder = ?5, lease_until = ?6, lease_s = ?7, open_turn = ?8, updated = ?9, status = 'active', asked = asked + ?10,
  seal = seal('thread', thread, head + 1, turns + ?2, opening + ?4, running + ?3, epoch + 1, 'active', content_version, parent, fork_at, hidden, pinned, asked + ?10, summary, created)
WHERE thread = ?1;

-- reseal --
-- A thread's row was changed on purpose.
UPDATE threads SET seal = seal('thread', thread, head, turns, opening, running, epoch, status, content_version, parent, fork_at, hidden, pinned, asked, summary, created) WHERE thread = ?1;

-- retake --
-- Take a turn up again, under a new epoch.
UPDATE threads SET epoch = epoch + 1, holder = ?2, lease_until = ?3, lease_s = ?4, open_turn = ?5, updated = ?6, status = 'active',
  asked = asked + ?7
WHERE thread = ?1
RETURNING epoch, asked;

-- append --
-- Move the head of a thread whose turn is still ours. No row comes back when a newer epoch has taken the thread over; whether
-- the turn is open, close_turn tells.
UPDATE threads SET head = head + ?3, turns = turns + ?4, running = running + ?5, lease_until = ?6, holder = ?7,
  open_turn = ?8, updated = ?9, state = coalesce(?10, state),
  seal = seal('thread', thread, head + ?3, turns + ?4, opening, running + ?5, epoch, status, content_version, parent, fork_at, hidden, pinned, asked, summary, created)
WHERE thread = ?1 AND epoch = ?2 AND status <> 'erased' AND open_turn = ?11
RETURNING head - ?3, turns - ?4, running - ?5, owner;

-- no_turn --
-- Nobody's turn.
UPDATE threads SET open_turn = NULL, lease_until = 0 WHERE thread = ?1;

-- reaped --
-- An abandoned turn was closed; its writer, if it lives after all, is refused.
UPDATE threads SET open_turn = NULL, lease_until = 0, epoch = epoch + 1, updated = ?2 WHERE thread = ?1;

-- add --
-- Move the head of a thread outside of a turn; the fence is taken for this one transaction.
UPDATE threads SET head = head + ?2, turns = turns + ?3, running = running + ?4, opening = opening + ?5,
  epoch = epoch + 1, updated = ?6, status = 'active',
  seal = seal('thread', thread, head + ?2, turns + ?3, opening + ?5, running + ?4, epoch + 1, 'active', content_version, parent, fork_at, hidden, pinned, asked, summary, created)
WHERE thread = ?1
RETURNING head - ?2, turns - ?3, running - ?4;

-- entry --
-- One entry.
INSERT INTO entries (thread, position, turn, role, tokens, running, created, id, body, seal) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10);

-- index_entry --
-- The words an entry is found by; of a thread that has no number yet nothing is written. 1048576: `POSITIONS` (index.py).
INSERT INTO search_new (row, words, thread, position) SELECT number * 1048576 + ?3, ?1, ?2, ?3 FROM indexed WHERE thread = ?2;

-- waiting --
-- How many rows wait for the full-text index.
SELECT count(*) FROM search_new;

-- take_in --
-- They go into it.
INSERT INTO search (rowid, words, thread, position) SELECT row, words, thread, position FROM search_new ORDER BY row;

-- none_waits --
-- None is left.
DELETE FROM search_new;

-- waiting_between --
-- Those of a range of rows, the newest of a thread first.
SELECT words, thread, position FROM search_new WHERE row >= ?1 AND row < ?2 ORDER BY row DESC;

-- unindex_waiting --
-- Take a message out that waits.
DELETE FROM search_new WHERE row = ?1;

-- number_thread --
-- A thread's first message is found by its words.
INSERT INTO indexed (thread, number) VALUES (?1, ?2);

-- next_number --
-- A number that no thread had before.
INSERT INTO meta VALUES ('threads indexed', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value;

-- thread_number --
-- Which rows of the index are a thread's.
SELECT number FROM indexed WHERE thread = ?1;

-- new_turn --
-- A turn begins with its question.
INSERT INTO turns (thread, first, number, last, status, epoch, created, key, request, seal)
VALUES (?1, ?2, ?7, ?2, 'open', ?3, ?4, ?5, ?6, seal('turn', ?1, ?2, ?7, ?2, 'open', ?3, ?4, ?5, ?6));

-- move_turn --
-- A turn taken up again behind later messages begins anew at another place.
UPDATE turns SET first = ?3, last = ?3, number = ?5, status = 'open', epoch = ?4, draft = NULL,
  seal = seal('turn', thread, ?3, ?5, ?3, 'open', ?4, created, key, request)
WHERE thread = ?1 AND first = ?2;

-- close_ranks --
-- A turn left its place among the others: those behind it count one less.
UPDATE turns SET number = number - 1,
  seal = seal('turn', thread, first, number - 1, last, status, epoch, created, key, request)
WHERE thread = ?1 AND first > ?2 AND first < ?3;

-- reopen_turn --
-- A turn goes on where it stopped.
UPDATE turns SET status = 'open', epoch = ?3, draft = NULL,
  seal = seal('turn', thread, first, number, last, 'open', ?3, created, key, request)
WHERE thread = ?1 AND first = ?2;

-- close_turn --
-- So many entries more of an open turn: the last step, or a pause. What is behind its last one is its own.
UPDATE turns SET last = last + ?3, status = ?4, manifest = coalesce(?5, manifest), draft = NULL,
  seal = seal('turn', thread, first, number, last + ?3, ?4, epoch, created, key, request)
WHERE thread = ?1 AND first = ?2 AND status = 'open'
RETURNING first;

-- interrupt_turn --
-- A turn whose writer is gone.
UPDATE turns SET status = 'interrupted', draft = NULL,
  seal = seal('turn', thread, first, number, last, 'interrupted', epoch, created, key, request)
WHERE thread = ?1 AND first = ?2 AND status IN ('open', 'waiting');

-- draft --
-- What was streamed so far of a turn.
SELECT draft FROM turns WHERE thread = ?1 AND first = ?2 AND status = 'open';

-- keep_draft --
-- Keep what was streamed so far.
UPDATE turns SET draft = ?3 WHERE thread = ?1 AND first = ?2;

-- renew --
-- A longer lease for the turn that still holds it.
UPDATE threads SET lease_until = ?3
WHERE thread = ?1 AND epoch = ?2 AND status <> 'erased' AND open_turn = ?4 AND lease_until > 0
RETURNING epoch;

-- call --
-- One row of the ledger.
INSERT INTO calls (thread, number, turn, purpose, model, input, output, cache_read, cache_write, reasoning, latency_ms, first_token_ms, estimated, created, cost, prices, spent_tokens, spent_cost, raw, seal)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20);

-- last_call --
-- The newest row of a thread's ledger, made before a moment.
SELECT number, turn, purpose, model, input, output, cache_read, cache_write, reasoning, latency_ms, first_token_ms, estimated, created, cost, prices, spent_tokens, spent_cost, raw, seal
FROM calls WHERE thread = ?1 AND created < ?2 ORDER BY number DESC LIMIT 1;

-- spenders --
-- An owner's threads.
SELECT thread FROM threads WHERE owner = ?1;

-- tail --
-- Entries below a position, newest first.
SELECT position, turn, role, tokens, running, created, id, body, seal FROM entries
WHERE thread = ?1 AND position < ?2 AND position >= ?3 ORDER BY position DESC LIMIT ?4;

-- range --
-- Entries from a position on, oldest first.
SELECT position, turn, role, tokens, running, created, id, body, seal FROM entries
WHERE thread = ?1 AND position >= ?2 AND position < ?3 ORDER BY position LIMIT ?4;

-- position_of_id --
-- Where the message with an id stands; the newest if it stands twice.
SELECT max(position) FROM entries WHERE thread = ?1 AND id = ?2 AND position < ?3;

-- positions_of_id --
-- Where messages with an id stand, the newest first.
SELECT position FROM entries WHERE thread = ?1 AND id = ?2 AND position < ?3 ORDER BY position DESC;

-- hidden_between --
-- What stays out of contexts, of the positions from one to below another. Ranges do not overlap, so that only the last one
-- that begins before can reach into them.
SELECT start, stop, seal FROM hidden
WHERE thread = ?1 AND start < ?3
  AND start >= coalesce((SELECT max(start) FROM hidden WHERE thread = ?1 AND start <= ?2), ?2) AND stop > ?2
ORDER BY start;

-- hidden_below --
-- The same below a position, newest first.
SELECT start, stop, seal FROM hidden WHERE thread = ?1 AND start < ?2 ORDER BY start DESC;

-- hide_range --
-- One more range out of contexts; it touches no other.
INSERT INTO hidden (thread, start, stop, seal) VALUES (?1, ?2, ?3, seal('hidden', ?1, ?2, ?3));

-- show_range --
-- One range less.
DELETE FROM hidden WHERE thread = ?1 AND start = ?2;

-- mark_hidden --
-- Whether a thread has hidden ranges, so that others need not look.
UPDATE threads SET hidden = (SELECT count(*) > 0 FROM hidden WHERE thread = ?1), updated = ?2 WHERE thread = ?1;

-- set_facts --
-- A thread's texts; metadata holds all of them under a seal.
UPDATE threads SET title = ?2, tags = ?3, metadata = ?4, state = ?5, status = ?6, updated = ?7 WHERE thread = ?1;

-- pins --
-- Pinned positions.
SELECT position, seal FROM pins WHERE thread = ?1 ORDER BY position;

-- pin --
-- One more pin.
INSERT OR IGNORE INTO pins (thread, position, seal) VALUES (?1, ?2, seal('pin', ?1, ?2));

-- unpin --
-- One pin less.
DELETE FROM pins WHERE thread = ?1 AND position = ?2;

-- mark_pinned --
-- Whether a thread has pins, so that others need not look.
UPDATE threads SET pinned = (SELECT count(*) > 0 FROM pins WHERE thread = ?1) WHERE thread = ?1;

-- turns --
-- Turns, newest first; none of an erased thread.
SELECT first, number, last, status, epoch, created, key, request, seal, manifest FROM turns
WHERE thread = ?1 AND first < ?2 AND NOT EXISTS (SELECT 1 FROM threads WHERE thread = ?1 AND status = 'erased')
ORDER BY first DESC LIMIT ?3;

-- calls_of_thread --
-- The ledger of one thread.
SELECT t.owner, t.thread_id, c.* FROM calls c JOIN threads t ON t.thread = c.thread WHERE c.thread = ?1 ORDER BY c.number;

-- calls_of_owner --
-- The ledger of one owner.
SELECT t.owner, t.thread_id, c.* FROM threads t JOIN calls c ON t.thread = c.thread WHERE t.owner = ?1 ORDER BY c.thread, c.number;

-- calls_of_all --
-- The whole ledger.
SELECT t.owner, t.thread_id, c.* FROM threads t JOIN calls c ON t.thread = c.thread ORDER BY c.thread, c.number;

-- set_body --
-- Another body in place of one that must go.
UPDATE entries SET body = ?3, seal = ?4, id = ?5 WHERE thread = ?1 AND position = ?2;

-- entry_at --
-- One entry with all that its seal covers.
SELECT position, turn, role, tokens, running, created, id, body, seal FROM entries WHERE thread = ?1 AND position = ?2;

-- indexed --
-- Rows of the search index in a range, and whether they wait.
SELECT rowid, 0 FROM search WHERE rowid >= ?1 AND rowid < ?2
UNION ALL SELECT row, 1 FROM search_new WHERE row >= ?1 AND row < ?2;

-- unindex --
-- Take a message out of the search.
DELETE FROM search WHERE rowid = ?1;

-- sharing --
-- The thread and all forks that have the entry at a position from it.
WITH RECURSIVE family (key) AS (
  SELECT ?1 UNION SELECT t.thread FROM threads t JOIN family ON t.parent = family.key AND t.fork_at > ?2
)
SELECT key FROM family;

-- content_changed --
-- Something was removed or masked: a summary that is being made from it must not be swapped in.
UPDATE threads SET content_version = content_version + 1 WHERE thread = ?1;

-- quoting --
-- Manifests of turns that ended at or behind a position, and that may quote what was said.
SELECT first, manifest FROM turns
WHERE thread = ?1 AND last >= ?2
  AND (instr(manifest, CAST(?3 AS BLOB)) OR instr(manifest, CAST(?4 AS BLOB)) OR instr(manifest, CAST(?5 AS BLOB)));

-- set_manifest --
-- A manifest without what it quoted.
UPDATE turns SET manifest = ?3 WHERE thread = ?1 AND first = ?2;

-- used --
-- When a thread was last used.
UPDATE threads SET updated = ?2 WHERE thread = ?1;

-- find_words --
-- Messages by their words, in a range of rows, the best first.
SELECT thread, position, rank FROM search WHERE search MATCH ?1 AND rowid >= ?2 AND rowid < ?3 ORDER BY rank;

-- index_words --
-- Words of the index that lie in a range, of whatever thread, without those that have numbers in them.
SELECT term FROM search_words WHERE term >= ?1 AND term < ?2 AND term NOT GLOB '*[0-9]*';

-- rows_of_words --
-- Where words stand, in a range of rows: the last ones.
SELECT rowid FROM search WHERE search MATCH ?1 AND rowid >= ?2 AND rowid < ?3 ORDER BY rowid DESC LIMIT ?4;

-- embedded --
-- Entries that have a vector of a model, or need none.
SELECT position FROM vectors WHERE thread = ?1 AND model = ?2;

-- put_vector --
-- The vector of an entry.
INSERT OR REPLACE INTO vectors (thread, model, position, vector) VALUES (?1, ?2, ?3, ?4);

-- vectors --
-- Vectors of a stretch of a thread, newest first.
SELECT position, vector FROM vectors
WHERE thread = ?1 AND model = ?2 AND position >= ?3 AND position < ?4 AND vector <> x'' ORDER BY position DESC;

-- drop_vectors --
-- What was made from something that changed.
DELETE FROM vectors WHERE thread = ?1 AND position >= ?2 AND position < ?3;

-- move_vectors --
-- A fork takes over a stretch of the thread that it came from.
UPDATE vectors SET thread = ?4 WHERE thread = ?1 AND position >= ?2 AND position < ?3;

-- children --
-- Threads that share the past of another, and up to where; the oldest first.
SELECT thread, fork_at FROM threads WHERE parent = ?1 ORDER BY created, owner, thread_id;

-- heirs --
-- All forks, and forks of forks, that share entries from a position on with a thread.
WITH RECURSIVE family (key) AS (
  SELECT ?1 UNION SELECT t.thread FROM threads t JOIN family ON t.parent = family.key AND t.fork_at > ?2
)
SELECT thread, thread_id FROM threads WHERE thread IN (SELECT key FROM family) AND thread <> ?1
ORDER BY created, owner, thread_id;

-- fork --
-- A thread that shares its parent's entries below a position.
INSERT INTO threads (thread, owner, thread_id, head, turns, opening, running, title, tags, metadata, state, parent, fork_at, epoch, created, updated)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?4,
  coalesce((SELECT epoch + 1 FROM threads WHERE thread = ?1 AND status = 'erased'), 0), ?13, ?13)
ON CONFLICT (thread) DO UPDATE SET owner = excluded.owner, thread_id = excluded.thread_id, status = 'active', head = excluded.head,
  turns = excluded.turns, opening = excluded.opening, running = excluded.running, title = excluded.title, tags = excluded.tags,
  metadata = excluded.metadata, state = excluded.state, parent = excluded.parent, fork_at = excluded.fork_at, epoch = excluded.epoch,
  created = excluded.created, updated = excluded.updated
WHERE threads.status = 'erased';

-- words_between --
-- What a stretch of a thread is found by; a fork that outlives it takes it over.
SELECT words, position FROM search WHERE rowid >= ?1 AND rowid < ?2
UNION ALL SELECT words, position FROM search_new WHERE row >= ?1 AND row < ?2;

-- cut_fork --
-- A fork whose parent goes: it shares with the parent's parent from now on, or with nobody.
UPDATE threads SET parent = ?2, fork_at = ?3 WHERE thread = ?1;

-- erased --
-- A thread's row stays as a fence without a name, so that a late writer is refused.
UPDATE threads SET owner = '', thread_id = '', head = 0, turns = 0, opening = 0, running = 0, epoch = epoch + 1, holder = '', lease_until = 0,
  open_turn = NULL, status = 'erased', title = '', tags = '[]', metadata = NULL, state = NULL, content_version = content_version + 1,
  parent = NULL, fork_at = 0, hidden = 0, pinned = 0, asked = 0, summary = 0, updated = ?2
WHERE thread = ?1;

-- summary --
-- One version of a thread's summary.
SELECT version, body FROM summaries WHERE thread = ?1 AND version = ?2 AND body <> x'';

-- summaries --
-- All versions, oldest first.
SELECT version, body FROM summaries WHERE thread = ?1 AND body <> x'' ORDER BY version;

-- newest_summary --
-- The number of the newest version, used or not.
SELECT coalesce(max(version), 0) FROM summaries WHERE thread = ?1;

-- new_summary --
-- One more version.
INSERT INTO summaries (thread, version, upto, body) VALUES (?1, ?2, ?3, ?4);

-- use_summary --
-- The version that contexts use.
UPDATE threads SET summary = ?2 WHERE thread = ?1;

-- drop_summaries --
-- What was made from something that was removed goes; its number stays, so that no other version gets it.
UPDATE summaries SET body = x'' WHERE thread = ?1 AND upto > ?2 AND body <> x'';

-- ask_work --
-- A job is wanted, by a moment; one that failed keeps its pause, one that nobody tries any more is taken up again late.
INSERT INTO work (thread, kind, due, spec) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (thread, kind) DO UPDATE SET generation = generation + 1, spec = ?4,
  due = CASE WHEN tries = 0 THEN ?3 WHEN due > 1e11 THEN ?5 ELSE max(due, ?3) END;

-- due_work --
-- Jobs that are due, also those that somebody holds.
SELECT w.thread, w.kind, w.due, w.generation, w.tries, w.spec, w.error, t.owner, t.thread_id, w.holder, w.lease_until
FROM work w JOIN threads t ON t.thread = w.thread WHERE w.due <= ?1 AND t.status <> 'erased' ORDER BY w.due;

-- claim_work --
-- A job is ours if nobody else took it since it was read.
UPDATE work SET holder = ?5, lease_until = ?6, tries = tries + 1
WHERE thread = ?1 AND kind = ?2 AND tries = ?3 AND holder = ?4
RETURNING generation;

-- renew_work --
-- A longer lease for a job that is still ours.
UPDATE work SET lease_until = ?5 WHERE thread = ?1 AND kind = ?2 AND holder = ?3 AND tries = ?4 RETURNING tries;

-- work_done --
-- A job is done, if it was not asked for again meanwhile.
DELETE FROM work WHERE thread = ?1 AND kind = ?2 AND holder = ?3 AND tries = ?4 AND generation = ?5;

-- work_again --
-- A job is over for now: it failed, or was asked for again meanwhile.
UPDATE work SET holder = '', lease_until = 0, due = ?5, tries = ?6, error = ?7
WHERE thread = ?1 AND kind = ?2 AND holder = ?3 AND tries = ?4;

-- all_work --
-- Jobs of one thread, or of all.
SELECT w.thread, w.kind, w.due, w.generation, w.tries, w.spec, w.error, t.owner, t.thread_id, w.holder, w.lease_until
FROM work w JOIN threads t ON t.thread = w.thread 
WHERE (?1 IS NULL OR w.thread = ?1) AND t.status <> 'erased' ORDER BY w.due;

-- next_work --
-- When the next job of each kind is due.
SELECT kind, min(max(due, lease_until)) FROM work GROUP BY kind;

-- left_over --
-- Rows of an erased thread are still there.
INSERT OR IGNORE INTO meta VALUES (?1, 1);

-- is_left_over --
-- Whether they are.
SELECT 1 FROM meta WHERE name = ?1;

-- any_left_over --
-- One such note, and its thread if it is an erased one.
SELECT m.name, t.thread FROM meta m LEFT JOIN threads t ON t.thread = unhex(substr(m.name, 11)) AND t.status = 'erased'
WHERE m.name > 'left over ' AND m.name < 'left over!' LIMIT 1;

-- none_left_over --
-- They are gone.
DELETE FROM meta WHERE name = ?1;

-- vault_facts --
-- What a database knows of its vault.
SELECT name, value FROM meta WHERE name IN ('vault', 'encrypted');

-- keep_vault_fact --
-- One such fact.
INSERT INTO meta VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- vault_seen --
-- The number of the ledger's note that was replayed last.
SELECT number FROM marks WHERE name = 'vault ledger';

-- see_vault --
-- Another one; a user who may not write the facts may write this.
INSERT INTO marks (name, number) VALUES ('vault ledger', ?1) ON CONFLICT (name) DO UPDATE SET number = excluded.number;

-- any_thread --
-- Whether a database holds any thread, an erased one too.
SELECT 1 FROM threads LIMIT 1;

-- set_turn --
-- The texts of a turn that moved, hidden anew for its place.
UPDATE turns SET request = ?3, manifest = ?4, seal = seal('turn', thread, first, number, last, status, epoch, created, key, ?3)
WHERE thread = ?1 AND first = ?2;

-- vectors_between --
-- All vectors of a stretch of a thread; a fork that takes them over has another key.
SELECT model, position, vector FROM vectors WHERE thread = ?1 AND position >= ?2 AND position < ?3;
