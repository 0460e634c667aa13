-- Schema 1: a fresh database, in a schema of its own. Migrations lead older ones to the same end.
--
-- Columns are bigint, text, bytea and double precision only, JSON stands in bytea, and every key begins with the thread's
-- (or the collection's) key: so the tables can be split by its hash, on one machine or on many (docs/postgres.md). Texts
-- compare by their bytes. Rows are not sealed here, but for entries and the ledger: nobody flips bits of a server's files
-- unseen where it runs with data checksums. What holds two tables of ours together is the lock of the thread's row, no
-- foreign key.

CREATE TABLE meta (name text COLLATE "C" PRIMARY KEY, number bigint, value bytea);

-- asked: rows of the thread in turns, so that one that is lost is missed. summary: the version that contexts use, 0 for none.
CREATE TABLE threads (
  thread bytea PRIMARY KEY,
  owner text COLLATE "C" NOT NULL,
  thread_id text COLLATE "C" NOT NULL,
  head bigint NOT NULL DEFAULT 0,
  turns bigint NOT NULL DEFAULT 0,
  opening bigint NOT NULL DEFAULT 0,
  running bigint NOT NULL DEFAULT 0,
  epoch bigint NOT NULL DEFAULT 0,
  holder text COLLATE "C" NOT NULL DEFAULT '',
  lease_until double precision NOT NULL DEFAULT 0,
  lease_s double precision NOT NULL DEFAULT 0,
  open_turn bigint,
  status text COLLATE "C" NOT NULL DEFAULT 'active',
  title text COLLATE "C" NOT NULL DEFAULT '',
  tags text COLLATE "C" NOT NULL DEFAULT '[]',
  metadata bytea,
  state bytea,
  content_version bigint NOT NULL DEFAULT 0,
  parent bytea,
  fork_at bigint NOT NULL DEFAULT 0,
  hidden bigint NOT NULL DEFAULT 0,
  pinned bigint NOT NULL DEFAULT 0,
  asked bigint NOT NULL DEFAULT 0,
  summary bigint NOT NULL DEFAULT 0,
  created double precision NOT NULL,
  updated double precision NOT NULL
);
-- What is long is looked for by its beginning, or its hash: a row of an index holds at most 2700 bytes.
CREATE INDEX threads_by_owner ON threads (left(owner, 200), updated, thread);
CREATE INDEX threads_by_use ON threads (updated, thread);
CREATE INDEX threads_by_age ON threads (created);
CREATE INDEX threads_closed ON threads (thread) WHERE status = 'closed';
CREATE INDEX threads_by_parent ON threads (parent) WHERE parent IS NOT NULL;

-- role: 0 system, 1 user, 2 assistant, 3 tool. body: the message's JSON without its role and id; NULL where it was deleted.
-- seal: a hash over all the rest of the row. created: milliseconds.
CREATE TABLE entries (
  thread bytea NOT NULL,
  position bigint NOT NULL,
  turn bigint NOT NULL,
  role bigint NOT NULL,
  tokens bigint NOT NULL,
  running bigint NOT NULL,
  created bigint NOT NULL,
  id text COLLATE "C",
  body bytea,
  seal bytea NOT NULL,
  PRIMARY KEY (thread, position)
);
CREATE INDEX entries_by_id ON entries (thread, right(id, 12)) WHERE id IS NOT NULL;  -- ids differ at their ends

-- number: 1, 2, 3, ... in the order of first.
CREATE TABLE turns (
  thread bytea NOT NULL,
  first bigint NOT NULL,
  number bigint NOT NULL,
  last bigint NOT NULL,
  status text COLLATE "C" NOT NULL,
  epoch bigint NOT NULL,
  created bigint NOT NULL,
  key text COLLATE "C",
  request bytea,
  manifest bytea,
  draft bytea,
  PRIMARY KEY (thread, first)
);
CREATE UNIQUE INDEX turns_by_key ON turns (thread, md5(key)) WHERE key IS NOT NULL;

-- cost: US dollars as a decimal, NULL if the price is not known. spent_*: sums over the thread up to and with the row.
CREATE TABLE calls (
  thread bytea NOT NULL,
  number bigint NOT NULL,
  turn bigint,
  purpose text COLLATE "C" NOT NULL,
  model text COLLATE "C",
  input bigint NOT NULL,
  output bigint NOT NULL,
  cache_read bigint NOT NULL,
  cache_write bigint NOT NULL,
  reasoning bigint NOT NULL,
  latency_ms bigint,
  first_token_ms bigint,
  estimated bigint NOT NULL,
  created bigint NOT NULL,
  cost text COLLATE "C",
  prices text COLLATE "C" NOT NULL,
  spent_tokens bigint NOT NULL,
  spent_cost text COLLATE "C" NOT NULL,
  raw bytea,
  seal bytea NOT NULL,
  PRIMARY KEY (thread, number)
);

CREATE TABLE pins (thread bytea NOT NULL, position bigint NOT NULL, PRIMARY KEY (thread, position));

-- Half-open ranges of positions that stay out of contexts; no two of a thread touch.
CREATE TABLE hidden (
  thread bytea NOT NULL, start bigint NOT NULL, stop bigint NOT NULL, PRIMARY KEY (thread, start)
);

-- What stands in contexts for older entries; body: a sealed `Summary`. Versions count up and are never used twice.
CREATE TABLE summaries (
  thread bytea NOT NULL, version bigint NOT NULL, upto bigint NOT NULL, body bytea NOT NULL, PRIMARY KEY (thread, version)
);

-- Jobs to do, one row a thread and kind. generation: rises with every request, so that one that came meanwhile is not lost.
CREATE TABLE work (
  thread bytea NOT NULL,
  kind text COLLATE "C" NOT NULL,
  due double precision NOT NULL,
  generation bigint NOT NULL DEFAULT 1,
  tries bigint NOT NULL DEFAULT 0,
  holder text COLLATE "C" NOT NULL DEFAULT '',
  lease_until double precision NOT NULL DEFAULT 0,
  spec text COLLATE "C" NOT NULL DEFAULT '',
  error text COLLATE "C" NOT NULL DEFAULT '',
  PRIMARY KEY (thread, kind)
);
CREATE INDEX work_by_due ON work (due);

-- LangGraph's checkpoints (stores/checkpoints.py). number: 1, 2, 3, ... in the order of puts in a namespace. start, stop:
-- what it added to the transcript. body: see tables/checkpoint_packing.py.
CREATE TABLE checkpoints (
  number bigint NOT NULL,
  start bigint NOT NULL,
  stop bigint NOT NULL,
  expires double precision,
  thread bytea NOT NULL,
  ns text COLLATE "C" NOT NULL,
  id bytea NOT NULL,
  parent bytea,
  run text COLLATE "C",
  body bytea NOT NULL,
  PRIMARY KEY (thread, ns, number)
);
CREATE UNIQUE INDEX checkpoints_by_id ON checkpoints (thread, ns, id);
CREATE INDEX checkpoints_by_run ON checkpoints (run) WHERE run IS NOT NULL;
CREATE INDEX checkpoints_by_expiry ON checkpoints (expires) WHERE expires IS NOT NULL;

-- What tasks wrote at a checkpoint, one row a task; body: (index, channel, reference) of each write.
CREATE TABLE checkpoint_writes (
  thread bytea NOT NULL,
  ns text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  task text COLLATE "C" NOT NULL,
  path text COLLATE "C" NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (thread, ns, number, task)
);

-- Channel values, each once. entry: the position of the message that it became (then it has no body), or that it is
-- another version of.
CREATE TABLE checkpoint_values (
  thread bytea NOT NULL,
  number bigint NOT NULL,
  hash bytea NOT NULL,
  type text COLLATE "C" NOT NULL,
  body bytea,
  entry bigint,
  PRIMARY KEY (thread, number)
);
CREATE INDEX checkpoint_values_by_hash ON checkpoint_values (thread, hash);

-- Documents (stores/documents.py). number: of one collection, never used twice. last: how many chunks and vectors it has
-- had: their numbers are that, above 2^36 times the collection's. put, dropped: rise with every chunk or vector that
-- comes, or goes.
CREATE TABLE collections (
  collection bytea PRIMARY KEY,
  number bigint NOT NULL GENERATED BY DEFAULT AS IDENTITY,
  owner text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  sources bigint NOT NULL DEFAULT 0,
  chunks bigint NOT NULL DEFAULT 0,
  vectors bigint NOT NULL DEFAULT 0,
  words bigint NOT NULL DEFAULT 0,
  model text COLLATE "C" NOT NULL DEFAULT '',
  size bigint NOT NULL DEFAULT 0,
  put bigint NOT NULL DEFAULT 0,
  dropped bigint NOT NULL DEFAULT 0,
  last bigint NOT NULL DEFAULT 0,
  created double precision NOT NULL,
  updated double precision NOT NULL
);
CREATE INDEX collections_by_owner ON collections (left(owner, 200));

CREATE TABLE sources (
  collection bytea NOT NULL,
  source text COLLATE "C" NOT NULL,
  path text COLLATE "C" NOT NULL,
  hash bytea NOT NULL,
  title text COLLATE "C" NOT NULL,
  chunks bigint NOT NULL,
  tokens bigint NOT NULL,
  bytes bigint NOT NULL,
  updated double precision NOT NULL,
  PRIMARY KEY (collection, source)
);

-- body: JSON; place: 0, 1, 2, ... in its source. heads, words: folded words of its headings and its text, as they are
-- scored; lexemes: the same, as they are found.
CREATE TABLE chunks (
  collection bytea NOT NULL,
  number bigint NOT NULL,
  source text COLLATE "C" NOT NULL,
  place bigint NOT NULL,
  body bytea NOT NULL,
  heads text COLLATE "C" NOT NULL DEFAULT '',
  words text COLLATE "C" NOT NULL DEFAULT '',
  lexemes tsvector,
  PRIMARY KEY (collection, number)
);
CREATE UNIQUE INDEX chunks_by_source ON chunks (collection, source, place);
CREATE INDEX chunks_by_words ON chunks USING gin (lexemes);

-- vector: 16-bit floats.
CREATE TABLE chunk_vectors (
  collection bytea NOT NULL, number bigint NOT NULL, chunk bigint NOT NULL, vector bytea NOT NULL,
  PRIMARY KEY (collection, number)
);
CREATE UNIQUE INDEX chunk_vectors_by_chunk ON chunk_vectors (collection, chunk);

-- Who did what to whom (stores/privacy.py): scope is a key or the hash of an owner, counts are rows by kind, and no row
-- holds a name or a text. chain: a hash over the row and the chain of the one before.
CREATE TABLE audit (
  number bigint PRIMARY KEY,
  at double precision NOT NULL,
  who text COLLATE "C" NOT NULL,
  action text COLLATE "C" NOT NULL,
  scope bytea NOT NULL,
  counts text COLLATE "C" NOT NULL,
  why text COLLATE "C" NOT NULL,
  chain bytea NOT NULL
);
CREATE INDEX audit_by_scope ON audit (scope, number);

-- How many acts there are, and when something was done last that one process of all does at a time.
CREATE TABLE marks (name text COLLATE "C" PRIMARY KEY, number bigint NOT NULL);

-- What must not be removed from: a thread's key, or (whole: 1) the hash of an owner.
CREATE TABLE holds (
  scope bytea PRIMARY KEY, since double precision NOT NULL, reason text COLLATE "C" NOT NULL, whole bigint NOT NULL
);

-- What erased threads of an owner (scope: its hash) had spent, for limits: sums of hours (hour 0: of all that is too old
-- for a limit in time).
-- last: milliseconds; cost: of a dollar the 10^12th part.
CREATE TABLE spent (
  scope bytea NOT NULL, hour bigint NOT NULL, last bigint NOT NULL, tokens bigint NOT NULL, cost bigint NOT NULL,
  PRIMARY KEY (scope, hour)
);

-- What retention knows of a thread: the version of the summary whose covered texts went, and a term of its own.
CREATE TABLE retention (thread bytea PRIMARY KEY, dropped bigint NOT NULL DEFAULT 0, expires double precision);

-- What messages are found by: their folded words, cut by us and not by PostgreSQL, and one more that says whose they are.
CREATE TABLE search (
  thread bytea NOT NULL, position bigint NOT NULL, words tsvector NOT NULL, PRIMARY KEY (thread, position)
);
-- Words wait in the index's list in kB of 64 at most: with the 4 MB that it may have else it is mostly list.
CREATE INDEX search_by_words ON search USING gin (words) WITH (gin_pending_list_limit = 64);

-- What messages are found by in their meaning, made by a job; vector: 16-bit floats, or nothing where there is nothing to be
-- found by.
CREATE TABLE vectors (
  thread bytea NOT NULL, model text COLLATE "C" NOT NULL, position bigint NOT NULL, vector bytea NOT NULL,
  PRIMARY KEY (thread, model, position)
);
