-- Every statement by its name; checkpoints.py and the files beside it call them.

-- by_id --
-- A checkpoint by its id.
SELECT ns, number, id, parent, start, stop, run, expires, body, true FROM checkpoints
WHERE thread = $1 AND ns = $2 AND id = $3;

-- by_number --
-- A checkpoint by where it stands.
SELECT ns, number, id, parent, start, stop, run, expires, body, true FROM checkpoints
WHERE thread = $1 AND ns = $2 AND number = $3;

-- newest --
-- The newest checkpoint of a namespace.
SELECT ns, number, id, parent, start, stop, run, expires, body, true FROM checkpoints
WHERE thread = $1 AND ns = $2 ORDER BY number DESC LIMIT 1;

-- newest_id --
-- Its number and id, and the number of the checkpoint of an id.
SELECT number, id, (SELECT number FROM checkpoints WHERE thread = $1 AND ns = $2 AND id = $3) FROM checkpoints
WHERE thread = $1 AND ns = $2 ORDER BY checkpoints.number DESC LIMIT 1;

-- place_of --
-- Where a checkpoint stands.
SELECT number FROM checkpoints WHERE thread = $1 AND ns = $2 AND id = $3;

-- put --
-- A checkpoint, or another one under its id.
INSERT INTO checkpoints (thread, ns, number, id, parent, start, stop, run, expires, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
ON CONFLICT (thread, ns, number) DO UPDATE SET id = excluded.id, parent = excluded.parent, start = excluded.start,
  stop = excluded.stop, run = excluded.run, expires = excluded.expires, body = excluded.body;

-- shorten --
-- A checkpoint's values, less what the transcript says; only as they are known.
UPDATE checkpoints SET body = $4
WHERE thread = $1 AND ns = $2 AND number = $3 AND body = $5;

-- shorten_write --
-- What a task wrote, likewise.
UPDATE checkpoint_writes SET body = $6
WHERE thread = $1 AND ns = $2 AND number = $3 AND task = $4 AND path = $5 AND body = $7;

-- line --
-- What a checkpoint and those before it added to the transcript.
WITH RECURSIVE line (parent, start, stop) AS (
  SELECT parent, start, stop FROM checkpoints WHERE thread = $1 AND ns = '' AND id = $2
  UNION ALL
  SELECT c.parent, c.start, c.stop FROM line JOIN checkpoints c
    ON c.thread = $1 AND c.ns = '' AND c.id = line.parent
)
SELECT start, stop FROM line WHERE start < stop;

-- ancestors --
-- A checkpoint and those before it.
WITH RECURSIVE line (id, parent) AS (
  SELECT id, parent FROM checkpoints WHERE thread = $1 AND ns = '' AND id = $2
  UNION ALL
  SELECT c.id, c.parent FROM line JOIN checkpoints c
    ON c.thread = $1 AND c.ns = '' AND c.id = line.parent
)
SELECT id FROM line;

-- of_namespace --
-- Checkpoints of a namespace, newest first; a page.
SELECT c.thread, t.owner, t.thread_id, c.ns, c.number, c.id, c.parent, c.start, c.stop, c.run, c.expires, c.body, true
FROM checkpoints c JOIN threads t ON t.thread = c.thread
WHERE c.thread = $1 AND c.ns = $2 AND ($3::bytea IS NULL OR c.id = $3) AND ($4::bytea IS NULL OR c.id < $4)
  AND c.number < $5 ORDER BY c.number DESC LIMIT $6;

-- of_thread --
-- Checkpoints of a thread in all namespaces; likewise.
SELECT c.thread, t.owner, t.thread_id, c.ns, c.number, c.id, c.parent, c.start, c.stop, c.run, c.expires, c.body, true
FROM checkpoints c JOIN threads t ON t.thread = c.thread
WHERE c.thread = $1 AND $2::text IS NULL AND ($3::bytea IS NULL OR c.id = $3) AND ($4::bytea IS NULL OR c.id < $4)
  AND ($5::bytea IS NULL OR (c.id, c.ns, c.number) < ($5, $6::text, $7::bigint))
ORDER BY c.id DESC, c.ns DESC, c.number DESC LIMIT $8;

-- of_owner --
-- Checkpoints of an owner, in one namespace or all; likewise.
SELECT c.thread, t.owner, t.thread_id, c.ns, c.number, c.id, c.parent, c.start, c.stop, c.run, c.expires, c.body, true
FROM threads t JOIN checkpoints c ON c.thread = t.thread
WHERE left(t.owner, 200) = left($1, 200) AND t.owner = $1 AND t.status <> 'erased' AND ($2::text IS NULL OR c.ns = $2) AND ($3::bytea IS NULL OR c.id = $3)
  AND ($4::bytea IS NULL OR c.id < $4)
  AND ($5::bytea IS NULL OR (c.id, c.thread, c.ns, c.number) < ($5, $6::bytea, $7::text, $8::bigint))
ORDER BY c.id DESC, c.thread DESC, c.ns DESC, c.number DESC LIMIT $9;

-- all_of_thread --
-- All checkpoints of a thread, oldest first.
SELECT ns, number, id, parent, start, stop, run, expires, body, true FROM checkpoints
WHERE thread = $1 ORDER BY ns, number;

-- of_runs --
-- Where the checkpoints of some runs stand.
SELECT c.thread, c.ns, c.number FROM checkpoints c JOIN threads t ON t.thread = c.thread
WHERE c.run = ANY($1::text[]) AND ($2::text IS NULL OR t.owner = $2);

-- drop --
-- A checkpoint goes.
DELETE FROM checkpoints WHERE thread = $1 AND ns = $2 AND number = $3;

-- drop_writes --
-- What was written at it goes.
DELETE FROM checkpoint_writes WHERE thread = $1 AND ns = $2 AND number = $3;

-- lapsed --
-- Threads whose newest checkpoint has lapsed.
SELECT t.thread, t.owner, t.thread_id FROM threads t
WHERE t.status <> 'erased' AND t.thread IN (SELECT thread FROM checkpoints WHERE expires <= $1)
  AND NOT EXISTS (SELECT 1 FROM checkpoints c WHERE c.thread = t.thread AND (c.expires IS NULL OR c.expires > $1));

-- written --
-- What was written at a checkpoint.
SELECT task, path, body, true FROM checkpoint_writes WHERE thread = $1 AND ns = $2 AND number = $3;

-- written_by --
-- What a task wrote there.
SELECT task, path, body, true FROM checkpoint_writes WHERE thread = $1 AND ns = $2 AND number = $3 AND task = $4;

-- all_written --
-- All that was written in a thread.
SELECT ns, number, task, path, body, true FROM checkpoint_writes WHERE thread = $1;

-- write --
-- What a task wrote.
INSERT INTO checkpoint_writes (thread, ns, number, task, path, body) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (thread, ns, number, task) DO UPDATE SET path = excluded.path, body = excluded.body;

-- value --
-- A value by its number.
SELECT number, hash, type, body, entry, true FROM checkpoint_values WHERE thread = $1 AND number = $2;

-- value_by_hash --
-- A value by its hash.
SELECT number, entry, body IS NULL FROM checkpoint_values WHERE thread = $1 AND hash = $2 AND type <> 'gone' LIMIT 1;

-- all_values --
-- All values of a thread.
SELECT number, hash, type, body, entry, true FROM checkpoint_values WHERE thread = $1;

-- last_value --
-- The highest number.
SELECT coalesce(max(number), 0) FROM checkpoint_values WHERE thread = $1;

-- keep --
-- One more value.
INSERT INTO checkpoint_values (thread, number, hash, type, body, entry)
VALUES ($1, $2, $3, $4, $5, $6);

-- became --
-- A value became an entry of the transcript: its body stands there.
UPDATE checkpoint_values SET body = $3, entry = $4
WHERE thread = $1 AND number = $2 AND hash = $5;

-- drop_value --
-- A value that nothing refers to.
DELETE FROM checkpoint_values WHERE thread = $1 AND number = $2;

-- versions --
-- Values that are versions of an entry.
SELECT number FROM checkpoint_values WHERE thread = $1 AND entry = $2 AND body IS NOT NULL;

-- quoting_values --
-- Values that hold some bytes.
SELECT number, body FROM checkpoint_values WHERE thread = $1 AND body IS NOT NULL AND position($2 IN body) > 0;

-- gone --
-- What a value said was removed.
UPDATE checkpoint_values SET hash = ''::bytea, type = 'gone', body = ''::bytea
WHERE thread = $1 AND number = $2;

-- as_entry --
-- A version of an entry says what the entry says.
UPDATE checkpoint_values SET hash = ''::bytea, type = 'entry', body = NULL
WHERE thread = $1 AND number = $2;

-- fences --
-- What a writer must know of a thread that it adds no message to.
SELECT created, content_version FROM threads WHERE thread = $1 AND status <> 'erased';

-- cut --
-- Texts in a value are told by the entries that say them.
UPDATE checkpoint_values SET type = $3, body = $4
WHERE thread = $1 AND number = $2 AND hash = $5 AND body IS NOT NULL;

-- any --
-- Whether a thread has checkpoints at all.
SELECT 1 FROM checkpoints WHERE thread = $1 LIMIT 1;

-- below --
-- Checkpoints of a namespace below a number, newest first.
SELECT ns, number, id, parent, start, stop, run, expires, body, true FROM checkpoints
WHERE thread = $1 AND ns = $2 AND number < $3 AND number < $4 ORDER BY number DESC LIMIT $5;

-- written_below --
-- What was written at them.
SELECT number, task, path, body, true FROM checkpoint_writes
WHERE thread = $1 AND ns = $2 AND number < $3 AND number <= $4 AND (number, task) < ($4, $5::text)
ORDER BY number DESC, task DESC LIMIT $6;

-- quoting_writes --
-- Writes that do.
SELECT ns, number, task, path, body, true FROM checkpoint_writes WHERE thread = $1 AND position($2 IN body) > 0;
