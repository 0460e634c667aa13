-- thread --
-- All facts of a thread.
SELECT thread, owner, thread_id, head, turns, opening, running, epoch, holder, lease_until, lease_s, open_turn, status, title, tags,
  metadata, state, content_version, parent, fork_at, hidden, pinned, asked, summary, created, updated, true
FROM threads WHERE thread = $1;

-- ancestor --
-- The same of a thread that another one was forked from; no writer waits for it.
SELECT thread, owner, thread_id, head, turns, opening, running, epoch, holder, lease_until, lease_s, open_turn, status, title, tags,
  metadata, state, content_version, parent, fork_at, hidden, pinned, asked, summary, created, updated, true
FROM threads WHERE thread = $1;

-- thread_locked --
-- The same in a transaction that writes: whoever else would write the thread waits until its end.
SELECT thread, owner, thread_id, head, turns, opening, running, epoch, holder, lease_until, lease_s, open_turn, status, title, tags,
  metadata, state, content_version, parent, fork_at, hidden, pinned, asked, summary, created, updated, true
FROM threads WHERE thread = $1 FOR UPDATE;

-- lock --
-- A thread is ours until the end of the transaction.
SELECT 1 FROM threads WHERE thread = $1 FOR UPDATE;

-- threads --
-- Threads of all owners, the last used first, from behind one on.
SELECT thread, owner, thread_id, head, turns, opening, running, epoch, holder, lease_until, lease_s, open_turn, status, title, tags,
  metadata, state, content_version, parent, fork_at, hidden, pinned, asked, summary, created, updated, true
FROM threads WHERE status <> 'erased' AND (updated, thread) < ($1::double precision, $2::bytea) ORDER BY updated DESC, thread DESC LIMIT $3;

-- threads_of_owner --
-- The same of one owner.
SELECT thread, owner, thread_id, head, turns, opening, running, epoch, holder, lease_until, lease_s, open_turn, status, title, tags,
  metadata, state, content_version, parent, fork_at, hidden, pinned, asked, summary, created, updated, true
FROM threads WHERE left(owner, 200) = left($4, 200) AND owner = $4 AND status <> 'erased' AND (updated, thread) < ($1::double precision, $2::bytea)
ORDER BY updated DESC, thread DESC LIMIT $3;

-- any_entry --
-- Whether entries are there, though their thread's row is not.
SELECT 1 FROM entries WHERE thread = $1 LIMIT 1;

-- spenders --
-- An owner's threads.
SELECT thread FROM threads WHERE left(owner, 200) = left($1, 200) AND owner = $1;

-- turn_by_key --
-- The turn of an idempotency key.
SELECT first, number, last, status, epoch, created, key, request, true, manifest FROM turns WHERE thread = $1 AND md5(key) = md5($2) AND key = $2;

-- turn --
-- The turn that begins at a position.
SELECT first, number, last, status, epoch, created, key, request, true, manifest FROM turns WHERE thread = $1 AND first = $2;

-- new_thread --
-- A thread is made by its first write; under an erased one's key it begins anew, above its epochs.
INSERT INTO threads (thread, owner, thread_id, created, updated, metadata) VALUES ($1, $2, $3, $4, $4, $5)
ON CONFLICT (thread) DO UPDATE SET owner = $2, thread_id = $3, status = 'active', created = $4, updated = $4, metadata = $5
WHERE threads.status = 'erased';

-- take --
-- Open a turn: a new epoch, a lease, room for the question, and for the turn's row if it has none yet.
UPDATE threads SET head = head + 1, turns = turns + $2, running = running + $3, opening = opening + $4, epoch = epoch + 1,
  holder = $5, lease_until = $6, lease_s = $7, open_turn = $8, updated = $9, status = 'active', asked = asked + $10
WHERE thread = $1;

-- retake --
-- Take a turn up again, under a new epoch.
UPDATE threads SET epoch = epoch + 1, holder = $2, lease_until = $3, lease_s = $4, open_turn = $5, updated = $6, status = 'active',
  asked = asked + $7
WHERE thread = $1
RETURNING epoch, asked;

-- append --
-- Move the head of a thread whose turn is still ours. No row comes back when a newer epoch has taken the thread over; whether
-- the turn is open, close_turn tells.
UPDATE threads SET head = head + $3, turns = turns + $4, running = running + $5, lease_until = $6, holder = $7,
  open_turn = $8, updated = $9, state = coalesce($10, state)
WHERE thread = $1 AND epoch = $2 AND status <> 'erased' AND open_turn = $11
RETURNING head - $3, turns - $4, running - $5, owner;

-- no_turn --
-- Nobody's turn.
UPDATE threads SET open_turn = NULL, lease_until = 0 WHERE thread = $1;

-- reaped --
-- An abandoned turn was closed; its writer, if it lives after all, is refused.
UPDATE threads SET open_turn = NULL, lease_until = 0, epoch = epoch + 1, updated = $2 WHERE thread = $1;

-- add --
-- Move the head of a thread outside of a turn; the fence is taken for this one transaction.
UPDATE threads SET head = head + $2, turns = turns + $3, running = running + $4, opening = opening + $5,
  epoch = epoch + 1, updated = $6, status = 'active'
WHERE thread = $1
RETURNING head - $2, turns - $3, running - $4;

-- entry --
-- One entry.
INSERT INTO entries (thread, position, turn, role, tokens, running, created, id, body, seal) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10);

-- index_entry --
-- The words an entry is found by.
INSERT INTO search (thread, position, words) VALUES ($1, $2, array_to_tsvector($3::text[]))
ON CONFLICT (thread, position) DO UPDATE SET words = excluded.words;

-- new_turn --
-- A turn begins with its question.
INSERT INTO turns (thread, first, number, last, status, epoch, created, key, request)
VALUES ($1, $2, $7, $2, 'open', $3, $4, $5, $6);

-- move_turn --
-- A turn taken up again behind later messages begins anew at another place.
UPDATE turns SET first = $3, last = $3, number = $5, status = 'open', epoch = $4, draft = NULL
WHERE thread = $1 AND first = $2;

-- close_ranks --
-- A turn left its place among the others: those behind it count one less.
UPDATE turns SET number = number - 1
WHERE thread = $1 AND first > $2 AND first < $3;

-- reopen_turn --
-- A turn goes on where it stopped.
UPDATE turns SET status = 'open', epoch = $3, draft = NULL
WHERE thread = $1 AND first = $2;

-- close_turn --
-- So many entries more of an open turn: the last step, or a pause. What is behind its last one is its own.
UPDATE turns SET last = last + $3, status = $4, manifest = coalesce($5, manifest), draft = NULL
WHERE thread = $1 AND first = $2 AND status = 'open'
RETURNING first;

-- interrupt_turn --
-- A turn whose writer is gone.
UPDATE turns SET status = 'interrupted', draft = NULL
WHERE thread = $1 AND first = $2 AND status IN ('open', 'waiting');

-- draft --
-- What was streamed so far of a turn.
SELECT draft FROM turns WHERE thread = $1 AND first = $2 AND status = 'open';

-- keep_draft --
-- Keep what was streamed so far.
UPDATE turns SET draft = $3 WHERE thread = $1 AND first = $2;

-- renew --
-- A longer lease for the turn that still holds it.
UPDATE threads SET lease_until = $3
WHERE thread = $1 AND epoch = $2 AND status <> 'erased' AND open_turn = $4 AND lease_until > 0
RETURNING epoch;

-- call --
-- One row of the ledger.
INSERT INTO calls (thread, number, turn, purpose, model, input, output, cache_read, cache_write, reasoning, latency_ms, first_token_ms, estimated, created, cost, prices, spent_tokens, spent_cost, raw, seal)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20);

-- last_call --
-- The newest row of a thread's ledger, made before a moment.
SELECT number, turn, purpose, model, input, output, cache_read, cache_write, reasoning, latency_ms, first_token_ms, estimated, created, cost, prices, spent_tokens, spent_cost, raw, seal
FROM calls WHERE thread = $1 AND created < $2 ORDER BY number DESC LIMIT 1;

-- tail --
-- Entries below a position, newest first.
SELECT position, turn, role, tokens, running, created, id, body, seal FROM entries
WHERE thread = $1 AND position < $2 AND position >= $3 ORDER BY position DESC LIMIT $4;

-- range --
-- Entries from a position on, oldest first.
SELECT position, turn, role, tokens, running, created, id, body, seal FROM entries
WHERE thread = $1 AND position >= $2 AND position < $3 ORDER BY position LIMIT $4;

-- position_of_id --
-- Where the message with an id stands; the newest if it stands twice.
SELECT max(position) FROM entries WHERE thread = $1 AND right(id, 12) = right($2, 12) AND id = $2 AND position < $3;

-- positions_of_id --
-- Where messages with an id stand, the newest first.
SELECT position FROM entries WHERE thread = $1 AND right(id, 12) = right($2, 12) AND id = $2 AND position < $3 ORDER BY position DESC;

-- hidden_between --
-- What stays out of contexts, of the positions from one to below another. Ranges do not overlap, so that only the last one
-- that begins before can reach into them.
SELECT start, stop, true FROM hidden
WHERE thread = $1 AND start < $3
  AND start >= coalesce((SELECT max(start) FROM hidden WHERE thread = $1 AND start <= $2), $2) AND stop > $2
ORDER BY start;

-- hidden_below --
-- The same below a position, newest first.
SELECT start, stop, true FROM hidden WHERE thread = $1 AND start < $2 ORDER BY start DESC;

-- hide_range --
-- One more range out of contexts; it touches no other.
INSERT INTO hidden (thread, start, stop) VALUES ($1, $2, $3);

-- show_range --
-- One range less.
DELETE FROM hidden WHERE thread = $1 AND start = $2;

-- mark_hidden --
-- Whether a thread has hidden ranges, so that others need not look.
UPDATE threads SET hidden = (SELECT count(*) FROM (SELECT 1 FROM hidden WHERE thread = $1 LIMIT 1) AS one), updated = $2 WHERE thread = $1;

-- set_facts --
-- A thread's texts; metadata holds all of them under a seal.
UPDATE threads SET title = $2, tags = $3, metadata = $4, state = $5, status = $6, updated = $7 WHERE thread = $1;

-- pins --
-- Pinned positions.
SELECT position, true FROM pins WHERE thread = $1 ORDER BY position;

-- pin --
-- One more pin.
INSERT INTO pins (thread, position) VALUES ($1, $2) ON CONFLICT DO NOTHING;

-- unpin --
-- One pin less.
DELETE FROM pins WHERE thread = $1 AND position = $2;

-- mark_pinned --
-- Whether a thread has pins, so that others need not look.
UPDATE threads SET pinned = (SELECT count(*) FROM (SELECT 1 FROM pins WHERE thread = $1 LIMIT 1) AS one) WHERE thread = $1;

-- turns --
-- Turns, newest first; none of an erased thread.
SELECT first, number, last, status, epoch, created, key, request, true, manifest FROM turns
WHERE thread = $1 AND first < $2 AND NOT EXISTS (SELECT 1 FROM threads WHERE thread = $1 AND status = 'erased')
ORDER BY first DESC LIMIT $3;

-- calls_of_thread --
-- The ledger of one thread.
SELECT t.owner, t.thread_id, c.thread, c.number, c.turn, c.purpose, c.model, c.input, c.output, c.cache_read, c.cache_write, c.reasoning, c.latency_ms,
  c.first_token_ms, c.estimated, c.created, c.cost, c.prices, c.spent_tokens, c.spent_cost, c.raw, c.seal FROM calls c JOIN threads t ON t.thread = c.thread WHERE c.thread = $1 ORDER BY c.number;

-- calls_of_owner --
-- The ledger of one owner.
SELECT t.owner, t.thread_id, c.thread, c.number, c.turn, c.purpose, c.model, c.input, c.output, c.cache_read, c.cache_write, c.reasoning, c.latency_ms,
  c.first_token_ms, c.estimated, c.created, c.cost, c.prices, c.spent_tokens, c.spent_cost, c.raw, c.seal FROM threads t JOIN calls c ON t.thread = c.thread WHERE left(t.owner, 200) = left($1, 200) AND t.owner = $1 ORDER BY c.thread, c.number;

-- calls_of_all --
-- The whole ledger.
SELECT t.owner, t.thread_id, c.thread, c.number, c.turn, c.purpose, c.model, c.input, c.output, c.cache_read, c.cache_write, c.reasoning, c.latency_ms,
  c.first_token_ms, c.estimated, c.created, c.cost, c.prices, c.spent_tokens, c.spent_cost, c.raw, c.seal FROM threads t JOIN calls c ON t.thread = c.thread ORDER BY c.thread, c.number;

-- set_body --
-- Another body in place of one that must go.
UPDATE entries SET body = $3, seal = $4, id = $5 WHERE thread = $1 AND position = $2;

-- entry_at --
-- One entry with all that its seal covers.
SELECT position, turn, role, tokens, running, created, id, body, seal FROM entries WHERE thread = $1 AND position = $2;

-- forks --
-- Threads forked from another one behind a position. Forks of forks are asked for one by one: they are of other shards.
SELECT thread, thread_id, created, owner FROM threads WHERE parent = $1 AND fork_at > $2;

-- content_changed --
-- Something was removed or masked: a summary that is being made from it must not be swapped in.
UPDATE threads SET content_version = content_version + 1 WHERE thread = $1;

-- quoting --
-- Manifests of turns that ended at or behind a position, and that may quote what was said.
SELECT first, manifest FROM turns
WHERE thread = $1 AND last >= $2
  AND (position(convert_to($3::text, 'UTF8') IN manifest) > 0 OR position(convert_to($4::text, 'UTF8') IN manifest) > 0 OR position(convert_to($5::text, 'UTF8') IN manifest) > 0);

-- set_manifest --
-- A manifest without what it quoted.
UPDATE turns SET manifest = $3 WHERE thread = $1 AND first = $2;

-- used --
-- When a thread was last used.
UPDATE threads SET updated = $2 WHERE thread = $1;

-- find_words --
-- Messages by their words, the best first.
SELECT thread, position, 1.0::double precision / (1 + length(words)) FROM search WHERE words @@ $1::tsquery
ORDER BY 3 DESC, thread, position DESC LIMIT $2 OFFSET $3;

-- find_words_of --
-- The same in one thread.
SELECT thread, position, 1.0::double precision / (1 + length(words)) FROM search WHERE thread = $4 AND words @@ $1::tsquery
ORDER BY 3 DESC, position DESC LIMIT $2 OFFSET $3;

-- unindex_entry --
-- Take a message out of the search.
DELETE FROM search WHERE thread = $1 AND position = $2;

-- rows_of_words --
-- Where words stand, in a stretch of a thread: the last ones.
SELECT position, tsvector_to_array(words) FROM search
WHERE thread = $1 AND position >= $2 AND position < $3 AND words @@ $4::tsquery ORDER BY position DESC LIMIT $5;

-- embedded --
-- Entries that have a vector of a model, or need none.
SELECT position FROM vectors WHERE thread = $1 AND model = $2;

-- put_vector --
-- The vector of an entry.
INSERT INTO vectors (thread, model, position, vector) VALUES ($1, $2, $3, $4)
ON CONFLICT (thread, model, position) DO UPDATE SET vector = excluded.vector;

-- vectors --
-- Vectors of a stretch of a thread, newest first.
SELECT position, vector FROM vectors
WHERE thread = $1 AND model = $2 AND position >= $3 AND position < $4 AND vector <> ''::bytea ORDER BY position DESC;

-- drop_vectors --
-- What was made from something that changed.
DELETE FROM vectors WHERE thread = $1 AND position >= $2 AND position < $3;

-- vectors_between --
-- What a stretch of a thread is found by in its meaning; a fork that outlives it takes it over.
SELECT model, position, vector FROM vectors WHERE thread = $1 AND position >= $2 AND position < $3;

-- children --
-- Threads that share the past of another, and up to where; the oldest first.
SELECT thread, fork_at FROM threads WHERE parent = $1 ORDER BY created, owner, thread_id;

-- fork --
-- A thread that shares its parent's entries below a position; under an erased one's key above its epochs.
INSERT INTO threads (thread, owner, thread_id, head, turns, opening, running, title, tags, metadata, state, parent, fork_at, epoch, created, updated)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $4, 0, $13, $13)
ON CONFLICT (thread) DO UPDATE SET owner = excluded.owner, thread_id = excluded.thread_id, status = 'active', head = excluded.head,
  turns = excluded.turns, opening = excluded.opening, running = excluded.running, title = excluded.title, tags = excluded.tags,
  metadata = excluded.metadata, state = excluded.state, parent = excluded.parent, fork_at = excluded.fork_at, epoch = threads.epoch + 1,
  created = excluded.created, updated = excluded.updated
WHERE threads.status = 'erased';

-- words_between --
-- What a stretch of a thread is found by; a fork that outlives it takes it over.
SELECT position, tsvector_to_array(words) FROM search WHERE thread = $1 AND position >= $2 AND position < $3;

-- cut_fork --
-- A fork whose parent goes: it shares with the parent's parent from now on, or with nobody.
UPDATE threads SET parent = $2, fork_at = $3 WHERE thread = $1;

-- erased --
-- A thread's row stays as a fence without a name, so that a late writer is refused.
UPDATE threads SET owner = '', thread_id = '', head = 0, turns = 0, opening = 0, running = 0, epoch = epoch + 1, holder = '', lease_until = 0,
  open_turn = NULL, status = 'erased', title = '', tags = '[]', metadata = NULL, state = NULL, content_version = content_version + 1,
  parent = NULL, fork_at = 0, hidden = 0, pinned = 0, asked = 0, summary = 0, updated = $2
WHERE thread = $1;

-- summary --
-- One version of a thread's summary.
SELECT version, body FROM summaries WHERE thread = $1 AND version = $2 AND body <> ''::bytea;

-- summaries --
-- All versions, oldest first.
SELECT version, body FROM summaries WHERE thread = $1 AND body <> ''::bytea ORDER BY version;

-- newest_summary --
-- The number of the newest version, used or not.
SELECT coalesce(max(version), 0) FROM summaries WHERE thread = $1;

-- new_summary --
-- One more version.
INSERT INTO summaries (thread, version, upto, body) VALUES ($1, $2, $3, $4);

-- use_summary --
-- The version that contexts use.
UPDATE threads SET summary = $2 WHERE thread = $1;

-- drop_summaries --
-- What was made from something that was removed goes; its number stays, so that no other version gets it.
UPDATE summaries SET body = ''::bytea WHERE thread = $1 AND upto > $2 AND body <> ''::bytea;

-- ask_work --
-- A job is wanted, by a moment; one that failed keeps its pause, one that nobody tries any more is taken up again late.
INSERT INTO work (thread, kind, due, spec) VALUES ($1, $2, $3, $4)
ON CONFLICT (thread, kind) DO UPDATE SET generation = work.generation + 1, spec = $4,
  due = CASE WHEN work.tries = 0 THEN $3 WHEN work.due > 1e11 THEN $5 ELSE greatest(work.due, $3) END;

-- due_work --
-- Jobs that are due, also those that somebody holds; a page.
SELECT w.thread, w.kind, w.due, w.generation, w.tries, w.spec, w.error, t.owner, t.thread_id, w.holder, w.lease_until
FROM work w JOIN threads t ON t.thread = w.thread
WHERE w.due <= $1 AND t.status <> 'erased' AND w.due >= $2 AND (w.due, w.thread, w.kind) > ($2, $3::bytea, $4::text)
ORDER BY w.due, w.thread, w.kind LIMIT $5;

-- claim_work --
-- A job is ours if nobody else took it since it was read.
UPDATE work SET holder = $5, lease_until = $6, tries = tries + 1
WHERE thread = $1 AND kind = $2 AND tries = $3 AND holder = $4
RETURNING generation;

-- renew_work --
-- A longer lease for a job that is still ours.
UPDATE work SET lease_until = $5 WHERE thread = $1 AND kind = $2 AND holder = $3 AND tries = $4 RETURNING tries;

-- work_done --
-- A job is done, if it was not asked for again meanwhile.
DELETE FROM work WHERE thread = $1 AND kind = $2 AND holder = $3 AND tries = $4 AND generation = $5;

-- work_again --
-- A job is over for now: it failed, or was asked for again meanwhile.
UPDATE work SET holder = '', lease_until = 0, due = $5, tries = $6, error = $7
WHERE thread = $1 AND kind = $2 AND holder = $3 AND tries = $4;

-- all_work --
-- Jobs of all threads.
SELECT w.thread, w.kind, w.due, w.generation, w.tries, w.spec, w.error, t.owner, t.thread_id, w.holder, w.lease_until
FROM work w JOIN threads t ON t.thread = w.thread WHERE t.status <> 'erased' ORDER BY w.due;

-- work_of --
-- Jobs of one thread.
SELECT w.thread, w.kind, w.due, w.generation, w.tries, w.spec, w.error, t.owner, t.thread_id, w.holder, w.lease_until
FROM work w JOIN threads t ON t.thread = w.thread WHERE w.thread = $1 AND t.status <> 'erased' ORDER BY w.due;

-- next_work --
-- When the next job of each kind is due.
SELECT kind, min(greatest(due, lease_until)) FROM work GROUP BY kind;

-- vault_facts --
-- What a database knows of its vault.
SELECT name, value FROM meta WHERE name IN ('vault', 'encrypted');

-- keep_vault_fact --
-- One such fact.
INSERT INTO meta (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value;

-- vault_seen --
-- The number of the ledger's note that was replayed last.
SELECT number FROM marks WHERE name = 'vault ledger';

-- see_vault --
-- Another one; a user who may not write the facts may write this.
INSERT INTO marks (name, number) VALUES ('vault ledger', $1) ON CONFLICT (name) DO UPDATE SET number = excluded.number;

-- any_thread --
-- Whether a database holds any thread, an erased one too.
SELECT 1 FROM threads LIMIT 1;

-- set_turn --
-- The texts of a turn that moved, hidden anew for its place.
UPDATE turns SET request = $3, manifest = $4 WHERE thread = $1 AND first = $2;
