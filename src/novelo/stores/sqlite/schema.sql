-- Schema 1: a fresh database. Migrations lead older ones to the same end.

CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;

-- seal (here and below): eight bytes of a hash over the rest of the row, made by the function that connections have
-- under that name; of a thread over what counts and fences, while its texts stand under seals of their own in metadata and
-- state, and the lease under none. asked: rows of the thread in turns, so that one that is lost is missed.
-- summary: the version that contexts use, 0 for none.
CREATE TABLE threads (
  thread BLOB PRIMARY KEY,
  owner TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  head INTEGER NOT NULL DEFAULT 0,
  turns INTEGER NOT NULL DEFAULT 0,
  opening INTEGER NOT NULL DEFAULT 0,
  running INTEGER NOT NULL DEFAULT 0,
  epoch INTEGER NOT NULL DEFAULT 0,
  holder TEXT NOT NULL DEFAULT '',
  lease_until REAL NOT NULL DEFAULT 0,
  lease_s REAL NOT NULL DEFAULT 0,
  open_turn INTEGER,
  status TEXT NOT NULL DEFAULT 'active',
  title TEXT NOT NULL DEFAULT '',
  tags TEXT NOT NULL DEFAULT '[]',
  metadata BLOB,
  state BLOB,
  content_version INTEGER NOT NULL DEFAULT 0,
  parent BLOB,
  fork_at INTEGER NOT NULL DEFAULT 0,
  hidden INTEGER NOT NULL DEFAULT 0,
  pinned INTEGER NOT NULL DEFAULT 0,
  asked INTEGER NOT NULL DEFAULT 0,
  summary INTEGER NOT NULL DEFAULT 0,
  created REAL NOT NULL,
  updated REAL NOT NULL,
  seal BLOB
) WITHOUT ROWID;
CREATE INDEX threads_by_owner ON threads (owner, updated);
CREATE INDEX threads_by_parent ON threads (parent) WHERE parent IS NOT NULL;

-- role: 0 system, 1 user, 2 assistant, 3 tool. body: the message's JSON less its role and id (stores/bodies.py); NULL
-- where it was deleted.
-- seal: a hash over all the rest of the row. created: milliseconds.
CREATE TABLE entries (
  thread BLOB NOT NULL,
  position INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  role INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  running INTEGER NOT NULL,
  created INTEGER NOT NULL,
  id TEXT,
  body BLOB,
  seal BLOB NOT NULL,
  PRIMARY KEY (thread, position)
) WITHOUT ROWID;
CREATE INDEX entries_by_id ON entries (thread, id) WHERE id IS NOT NULL;

-- number: 1, 2, 3, ... in the order of first.
CREATE TABLE turns (
  thread BLOB NOT NULL,
  first INTEGER NOT NULL,
  number INTEGER NOT NULL,
  last INTEGER NOT NULL,
  status TEXT NOT NULL,
  epoch INTEGER NOT NULL,
  created INTEGER NOT NULL,
  key TEXT,
  request BLOB,
  seal BLOB NOT NULL,
  manifest BLOB,
  draft BLOB,
  PRIMARY KEY (thread, first)
) WITHOUT ROWID;
CREATE UNIQUE INDEX turns_by_key ON turns (thread, key) WHERE key IS NOT NULL;

-- cost: US dollars as a decimal, NULL if the price is not known. spent_*: sums over the thread up to and with the row.
CREATE TABLE calls (
  thread BLOB NOT NULL,
  number INTEGER NOT NULL,
  turn INTEGER,
  purpose TEXT NOT NULL,
  model TEXT,
  input INTEGER NOT NULL,
  output INTEGER NOT NULL,
  cache_read INTEGER NOT NULL,
  cache_write INTEGER NOT NULL,
  reasoning INTEGER NOT NULL,
  latency_ms INTEGER,
  first_token_ms INTEGER,
  estimated INTEGER NOT NULL,
  created INTEGER NOT NULL,
  cost TEXT,
  prices TEXT NOT NULL,
  spent_tokens INTEGER NOT NULL,
  spent_cost TEXT NOT NULL,
  raw BLOB,
  seal BLOB NOT NULL,
  PRIMARY KEY (thread, number)
) WITHOUT ROWID;

CREATE TABLE pins (
  thread BLOB NOT NULL, position INTEGER NOT NULL, seal BLOB NOT NULL, PRIMARY KEY (thread, position)
) WITHOUT ROWID;

-- Half-open ranges of positions that stay out of contexts; no two of a thread touch.
CREATE TABLE hidden (
  thread BLOB NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL, seal BLOB NOT NULL,
  PRIMARY KEY (thread, start)
) WITHOUT ROWID;

-- What stands in contexts for older entries; body: a sealed `Summary`. Versions count up and are never used twice.
CREATE TABLE summaries (
  thread BLOB NOT NULL, version INTEGER NOT NULL, upto INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (thread, version)
) WITHOUT ROWID;

-- Jobs to do, one row a thread and kind. generation: rises with every request, so that one that came meanwhile is not lost.
CREATE TABLE work (
  thread BLOB NOT NULL,
  kind TEXT NOT NULL,
  due REAL NOT NULL,
  generation INTEGER NOT NULL DEFAULT 1,
  tries INTEGER NOT NULL DEFAULT 0,
  holder TEXT NOT NULL DEFAULT '',
  lease_until REAL NOT NULL DEFAULT 0,
  spec TEXT NOT NULL DEFAULT '',
  error TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (thread, kind)
) WITHOUT ROWID;
CREATE INDEX work_by_due ON work (due);

-- LangGraph's checkpoints (stores/checkpoints.py). number: 1, 2, 3, ... in the order of puts in a namespace. start, stop:
-- what it added to the transcript. body: see tables/checkpoint_packing.py.
CREATE TABLE checkpoints (
  thread BLOB NOT NULL,
  ns TEXT NOT NULL,
  number INTEGER NOT NULL,
  id BLOB NOT NULL,
  parent BLOB,
  start INTEGER NOT NULL,
  stop INTEGER NOT NULL,
  run TEXT,
  expires REAL,
  body BLOB NOT NULL,
  seal BLOB NOT NULL,
  PRIMARY KEY (thread, ns, number)
) WITHOUT ROWID;
CREATE UNIQUE INDEX checkpoints_by_id ON checkpoints (thread, ns, id);
CREATE INDEX checkpoints_by_run ON checkpoints (run) WHERE run IS NOT NULL;
CREATE INDEX checkpoints_by_expiry ON checkpoints (expires) WHERE expires IS NOT NULL;

-- What tasks wrote at a checkpoint, one row a task; body: (index, channel, reference) of each write.
CREATE TABLE checkpoint_writes (
  thread BLOB NOT NULL,
  ns TEXT NOT NULL,
  number INTEGER NOT NULL,
  task TEXT NOT NULL,
  path TEXT NOT NULL,
  body BLOB NOT NULL,
  seal BLOB NOT NULL,
  PRIMARY KEY (thread, ns, number, task)
) WITHOUT ROWID;

-- Channel values, each once. entry: the position of the message that it became (then it has no body), or that it is
-- another version of.
CREATE TABLE checkpoint_values (
  thread BLOB NOT NULL,
  number INTEGER NOT NULL,
  hash BLOB NOT NULL,
  type TEXT NOT NULL,
  body BLOB,
  entry INTEGER,
  seal BLOB NOT NULL,
  PRIMARY KEY (thread, number)
) WITHOUT ROWID;
CREATE INDEX checkpoint_values_by_hash ON checkpoint_values (thread, hash);

-- Documents (stores/documents.py). number: stands before each word of the collection in chunk_words, and is never used
-- twice. put, dropped: rise with every chunk or vector that comes, or goes.
CREATE TABLE collections (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  collection BLOB NOT NULL UNIQUE,
  owner TEXT NOT NULL,
  name TEXT NOT NULL,
  sources INTEGER NOT NULL DEFAULT 0,
  chunks INTEGER NOT NULL DEFAULT 0,
  vectors INTEGER NOT NULL DEFAULT 0,
  words INTEGER NOT NULL DEFAULT 0,
  model TEXT NOT NULL DEFAULT '',
  size INTEGER NOT NULL DEFAULT 0,
  put INTEGER NOT NULL DEFAULT 0,
  dropped INTEGER NOT NULL DEFAULT 0,
  created REAL NOT NULL,
  updated REAL NOT NULL,
  seal BLOB NOT NULL
);
CREATE INDEX collections_by_owner ON collections (owner, name);

CREATE TABLE sources (
  collection BLOB NOT NULL,
  source TEXT NOT NULL,
  path TEXT NOT NULL,
  hash BLOB NOT NULL,
  title TEXT NOT NULL,
  chunks INTEGER NOT NULL,
  tokens INTEGER NOT NULL,
  bytes INTEGER NOT NULL,
  updated REAL NOT NULL,
  seal BLOB NOT NULL,
  PRIMARY KEY (collection, source)
) WITHOUT ROWID;

-- body: JSON; place: 0, 1, 2, ... in its source.
CREATE TABLE chunks (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  collection BLOB NOT NULL,
  source TEXT NOT NULL,
  place INTEGER NOT NULL,
  body BLOB NOT NULL,
  seal BLOB NOT NULL
);
CREATE UNIQUE INDEX chunks_by_source ON chunks (collection, source, place);
CREATE INDEX chunks_by_collection ON chunks (collection);

-- vector: 16-bit floats; a row of another length is refused, its numbers are not sealed: at worst a rank is wrong.
CREATE TABLE chunk_vectors (
  number INTEGER PRIMARY KEY AUTOINCREMENT,
  collection BLOB NOT NULL,
  chunk INTEGER NOT NULL,
  vector BLOB NOT NULL
);
CREATE UNIQUE INDEX chunk_vectors_by_chunk ON chunk_vectors (collection, chunk);
CREATE INDEX chunk_vectors_by_collection ON chunk_vectors (collection);

-- Who did what to whom (stores/privacy.py): scope is a key or the hash of an owner, counts are rows by kind, and no row
-- holds a name or a text. chain: a hash over the row and the chain of the one before.
CREATE TABLE audit (
  number INTEGER PRIMARY KEY,
  at REAL NOT NULL,
  who TEXT NOT NULL,
  action TEXT NOT NULL,
  scope BLOB NOT NULL,
  counts TEXT NOT NULL,
  why TEXT NOT NULL,
  chain BLOB NOT NULL
);

-- How many acts there are, and when something was done last that one process of all does at a time.
CREATE TABLE marks (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;

-- What must not be removed from: a thread's key, or (whole: 1) the hash of an owner.
CREATE TABLE holds (
  scope BLOB PRIMARY KEY, since REAL NOT NULL, reason TEXT NOT NULL, whole INTEGER NOT NULL, seal BLOB NOT NULL
) WITHOUT ROWID;

-- What erased threads of an owner (scope: its hash) had spent, for limits: sums of hours (hour 0: of all that is too old
-- for a limit in time).
-- last: milliseconds; cost: of a dollar the 10^12th part.
CREATE TABLE spent (
  scope BLOB NOT NULL, hour INTEGER NOT NULL, last INTEGER NOT NULL, tokens INTEGER NOT NULL, cost INTEGER NOT NULL,
  PRIMARY KEY (scope, hour)
) WITHOUT ROWID;

-- What retention knows of a thread: the version of the summary whose covered texts went, and a term of its own.
CREATE TABLE retention (thread BLOB PRIMARY KEY, dropped INTEGER NOT NULL DEFAULT 0, expires REAL) WITHOUT ROWID;

-- Which rows of the search index are a thread's: number * 2^20 and what follows. Numbers are counted in meta, and none is
-- used twice.
CREATE TABLE indexed (thread BLOB PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;

-- rowid: the thread's number * 2^20 + the position. words: a word for the owner, then the folded text (index.py); whole
-- words only are asked for.
CREATE VIRTUAL TABLE search USING fts5 (
  words, thread UNINDEXED, position UNINDEXED, tokenize = 'ascii', detail = 'none'
);
INSERT INTO search (search, rank) VALUES ('secure-delete', 1);
CREATE VIRTUAL TABLE search_words USING fts5vocab (search, row);

-- The newest rows of the search index, few at a time, until they go into it together.
CREATE TABLE search_new (row INTEGER PRIMARY KEY, words TEXT NOT NULL, thread BLOB NOT NULL, position INTEGER NOT NULL);

-- What messages are found by in their meaning, made by a job; vector: 16-bit floats, or nothing where there is nothing to be
-- found by.
CREATE TABLE vectors (
  thread BLOB NOT NULL, model TEXT NOT NULL, position INTEGER NOT NULL, vector BLOB NOT NULL,
  PRIMARY KEY (thread, model, position)
) WITHOUT ROWID;

-- Words of a chunk's headings and of its text, each with the number of its collection before it (documents.py), so that
-- a search passes over no other collection's rows, and frequencies are those of one collection.
CREATE VIRTUAL TABLE chunk_words USING fts5 (heads, words, tokenize = 'ascii');
INSERT INTO chunk_words (chunk_words, rank) VALUES ('secure-delete', 1);
CREATE VIRTUAL TABLE chunk_terms USING fts5vocab (chunk_words, row);
