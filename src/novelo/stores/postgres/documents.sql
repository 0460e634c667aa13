-- Every statement by its name; documents.py calls them.

-- collection --
-- A collection's facts.
SELECT number, owner, name, sources, chunks, vectors, words, model, size, put, dropped, created, updated, true
FROM collections WHERE collection = $1;

-- collection_locked --
-- The same in a transaction that writes: whoever else would write the collection waits until its end.
SELECT number, owner, name, sources, chunks, vectors, words, model, size, put, dropped, created, updated, true
FROM collections WHERE collection = $1 FOR UPDATE;

-- collections --
-- All of an owner, or of everybody.
SELECT collection, number, owner, name, sources, chunks, vectors, words, model, size, put, dropped, created, updated, true
FROM collections WHERE ($1::text IS NULL OR owner = $1) ORDER BY owner, name;

-- new_collection --
-- An empty one; its number comes with it.
INSERT INTO collections (collection, owner, name, created, updated) VALUES ($1, $2, $3, $4, $4)
RETURNING number;

-- set_collection --
-- Its counts.
UPDATE collections SET sources = $5, chunks = $6, vectors = $7, words = $8, model = $9, size = $10, put = $11,
  dropped = $12, created = $13, updated = $14
WHERE collection = $1 AND number = $2 AND owner = $3 AND name = $4;

-- drop_collection --
-- It goes.
DELETE FROM collections WHERE collection = $1;

-- sources --
-- All sources.
SELECT source, path, hash, title, chunks, tokens, bytes, updated, true FROM sources WHERE collection = $1 ORDER BY source;

-- source --
-- One.
SELECT source, path, hash, title, chunks, tokens, bytes, updated, true FROM sources WHERE collection = $1 AND source = $2;

-- put_source --
-- A source, or another one under its name.
INSERT INTO sources (collection, source, path, hash, title, chunks, tokens, bytes, updated)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (collection, source) DO UPDATE SET path = excluded.path, hash = excluded.hash, title = excluded.title,
  chunks = excluded.chunks, tokens = excluded.tokens, bytes = excluded.bytes, updated = excluded.updated;

-- drop_source --
-- It goes.
DELETE FROM sources WHERE collection = $1 AND source = $2;

-- next_chunk --
-- The number of a collection's next chunk.
UPDATE collections SET last = last + 1 WHERE collection = $1 RETURNING (number << 36) + last;

-- put_chunk --
-- A chunk.
INSERT INTO chunks (collection, number, source, place, body) VALUES ($1, $5, $2, $3, $4);

-- index_chunk --
-- Its words.
UPDATE chunks SET heads = $3, words = $4, lexemes = array_to_tsvector($5::text[]) WHERE collection = $1 AND number = $2;

-- words_of --
-- The words of a chunk.
SELECT heads, words FROM chunks WHERE collection = $1 AND number = $2;

-- chunks_of --
-- A source's chunks, in order.
SELECT number, source, place, body, true FROM chunks WHERE collection = $1 AND source = $2 ORDER BY place;

-- chunk --
-- A chunk.
SELECT number, source, place, body, true FROM chunks WHERE collection = $1 AND number = $2;

-- drop_chunks --
-- A source's chunks go.
DELETE FROM chunks WHERE collection = $1 AND source = $2;

-- drop_vector --
-- A chunk's vector goes.
DELETE FROM chunk_vectors WHERE collection = $1 AND chunk = $2;

-- frequency --
-- In how many chunks a word stands.
SELECT count(*) FROM chunks WHERE collection = $1 AND lexemes @@ $2::tsquery;

-- matches --
-- Chunks with one of some words, the best first, roughly.
SELECT number, ts_rank(lexemes, $2::tsquery) FROM chunks WHERE collection = $1 AND lexemes @@ $2::tsquery
ORDER BY 2 DESC, 1 LIMIT $3;

-- all_matches --
-- All of them, in no order.
SELECT number, ts_rank(lexemes, $2::tsquery) FROM chunks WHERE collection = $1 AND lexemes @@ $2::tsquery;

-- without_vector --
-- Chunks that have no vector.
SELECT c.number, c.source, c.place, c.body, true FROM chunks c
WHERE c.collection = $1 AND c.number > $2
  AND NOT EXISTS (SELECT 1 FROM chunk_vectors v WHERE v.collection = $1 AND v.chunk = c.number)
ORDER BY c.number LIMIT $3;

-- next_vector --
-- The number of a collection's next vector, if the chunk is there and has none.
UPDATE collections SET last = last + 1
WHERE collection = $1 AND EXISTS (SELECT 1 FROM chunks WHERE collection = $1 AND number = $2)
  AND NOT EXISTS (SELECT 1 FROM chunk_vectors WHERE collection = $1 AND chunk = $2)
RETURNING last;

-- put_chunk_vector --
-- A vector of a chunk that is there.
INSERT INTO chunk_vectors (collection, number, chunk, vector) VALUES ($1, $4, $2, $3);

-- drop_chunk_vectors --
-- All vectors go.
DELETE FROM chunk_vectors WHERE collection = $1;

-- chunk_vectors --
-- Vectors in the order in which they came.
SELECT number, chunk, vector FROM chunk_vectors
WHERE collection = $1 AND number > $2 ORDER BY number;

-- vector_numbers --
-- Their numbers.
SELECT number FROM chunk_vectors WHERE collection = $1 ORDER BY number;
