-- Every statement by its name; tables/removing.py and the files beside it call them.

-- hold --
-- Nothing of a scope may be removed from now on; the first moment stays.
INSERT INTO holds (scope, since, reason, whole, seal) VALUES (?1, ?2, ?3, ?4, seal('hold', ?1, ?2, ?3, ?4))
ON CONFLICT (scope) DO UPDATE SET reason = ?3, seal = seal('hold', holds.scope, holds.since, ?3, holds.whole);

-- release --
-- It may again.
DELETE FROM holds WHERE scope = ?1;

-- held --
-- The hold on a scope.
SELECT scope, since, reason, whole, seal FROM holds WHERE scope = ?1;

-- all_held --
-- All holds, the oldest first.
SELECT scope, since, reason, whole, seal FROM holds ORDER BY since, scope;

-- keys_of_owner --
-- An owner's threads by key, from behind one on.
SELECT thread FROM threads WHERE owner = ?1 AND thread > ?2 AND status <> 'erased' ORDER BY thread LIMIT ?3;

-- spending --
-- What a thread's ledger says for limits: when, how many tokens, for how much.
SELECT created, input + output, cost FROM calls WHERE thread = ?1 ORDER BY number;

-- keep_spent --
-- It stays in an owner's limits, as sums of hours; cost: of a dollar the 10^12th part.
INSERT INTO spent (scope, hour, last, tokens, cost) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (scope, hour) DO UPDATE SET last = max(spent.last, ?3), tokens = spent.tokens + ?4, cost = spent.cost + ?5;

-- kept_spent --
-- What erased threads of an owner have spent since a moment, in milliseconds.
SELECT coalesce(sum(tokens), 0), coalesce(sum(cost), 0) FROM spent WHERE scope = ?1 AND last >= ?2;

-- forget_spent --
-- An owner goes.
DELETE FROM spent WHERE scope = ?1;

-- next_act --
-- The number of one more act; nobody else gets one before the end of the transaction.
INSERT INTO marks (name, number) VALUES ('acts', 1) ON CONFLICT (name) DO UPDATE SET number = number + 1 RETURNING number;

-- next_wash --
-- One more commit.
INSERT INTO meta VALUES ('washes', 1) ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value;

-- acts --
-- How many there are.
SELECT number FROM marks WHERE name = 'acts';

-- last_chain --
-- The end of the chain below a number.
SELECT chain FROM audit WHERE number = ?1;

-- act --
-- Who did what to whom, without a name.
INSERT INTO audit (number, at, who, action, scope, counts, why, chain) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- audit --
-- Acts below a number, the newest first.
SELECT number, at, who, action, scope, counts, why, chain FROM audit
WHERE number < ?1 AND (?2 IS NULL OR scope = ?2) ORDER BY number DESC LIMIT ?3;

-- audit_from --
-- Acts from a number on, the oldest first.
SELECT number, at, who, action, scope, counts, why, chain FROM audit WHERE number >= ?1 ORDER BY number LIMIT ?2;

-- standing --
-- Threads that a rule of retention may take, by key from behind one on. Idle ones are old ones too, for a thread is used
-- when it is made.
SELECT t.*, r.dropped, r.expires FROM threads t LEFT JOIN retention r ON r.thread = t.thread
WHERE t.thread > ?1 AND t.status <> 'erased'
  AND (t.updated <= ?2 OR t.created <= ?3 OR (?4 AND t.status = 'closed') OR r.expires <= ?5)
ORDER BY t.thread LIMIT ?6;

-- weights --
-- Messages of some threads that have content, and the bytes of them; of each the entries in a range.
SELECT e.thread, count(*), sum(length(e.body)) FROM json_each(?1) j CROSS JOIN entries e
WHERE e.thread = unhex(j.value ->> 0) AND e.position >= j.value ->> 1 AND e.position < j.value ->> 2 AND e.body IS NOT NULL
GROUP BY e.thread;

-- set_term --
-- When retention takes a thread.
INSERT INTO retention (thread, expires) VALUES (?1, ?2) ON CONFLICT (thread) DO UPDATE SET expires = ?2;

-- set_dropped --
-- The summary whose covered texts went.
INSERT INTO retention (thread, dropped) VALUES (?1, ?2) ON CONFLICT (thread) DO UPDATE SET dropped = ?2;

-- once --
-- When something was done last, if that is long ago.
INSERT INTO marks (name, number) VALUES (?1, ?2) ON CONFLICT (name) DO UPDATE SET number = ?2 WHERE number <= ?3 OR number > ?4
RETURNING 1;

-- texts_below --
-- Positions of a thread's own entries in a range that have content.
SELECT position FROM entries WHERE thread = ?1 AND position >= ?2 AND position < ?3 AND body IS NOT NULL ORDER BY position;

-- turns_kept --
-- What turns hold beside entries.
SELECT first, manifest, draft FROM turns WHERE thread = ?1 AND (manifest IS NOT NULL OR draft IS NOT NULL);

-- mask_turn --
-- The same, masked.
UPDATE turns SET manifest = ?3, draft = ?4 WHERE thread = ?1 AND first = ?2;

-- set_summary --
-- A summary, masked.
UPDATE summaries SET body = ?3 WHERE thread = ?1 AND version = ?2;

-- masked_value --
-- What a value of a graph says from now on.
UPDATE checkpoint_values SET hash = ?3, type = ?4, body = ?5, seal = seal('checkpoint value', thread, number, ?3, ?4, ?5, entry)
WHERE thread = ?1 AND number = ?2;
