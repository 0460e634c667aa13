-- Every statement by its name; documents.py calls them.

-- collection --
-- A collection's facts.
SELECT number, owner, name, sources, chunks, vectors, words, model, size, put, dropped, created, updated, seal
FROM collections WHERE collection = ?1;

-- collections --
-- All of an owner, or of everybody.
SELECT collection, number, owner, name, sources, chunks, vectors, words, model, size, put, dropped, created, updated, seal
FROM collections WHERE (?1 IS NULL OR owner = ?1) ORDER BY owner, name;

-- new_collection --
-- An empty one; its number comes with it, and its seal behind.
INSERT INTO collections (collection, owner, name, created, updated, seal) VALUES (?1, ?2, ?3, ?4, ?4, x'')
RETURNING number;

-- set_collection --
-- Its counts.
UPDATE collections SET sources = ?5, chunks = ?6, vectors = ?7, words = ?8, model = ?9, size = ?10, put = ?11,
  dropped = ?12, created = ?13, updated = ?14,
  seal = seal('collection', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
WHERE collection = ?1 AND number = ?2 AND owner = ?3 AND name = ?4;

-- drop_collection --
-- It goes.
DELETE FROM collections WHERE collection = ?1;

-- sources --
-- All sources.
SELECT source, path, hash, title, chunks, tokens, bytes, updated, seal FROM sources WHERE collection = ?1 ORDER BY source;

-- source --
-- One.
SELECT source, path, hash, title, chunks, tokens, bytes, updated, seal FROM sources WHERE collection = ?1 AND source = ?2;

-- put_source --
-- A source, or another one under its name.
INSERT OR REPLACE INTO sources (collection, source, path, hash, title, chunks, tokens, bytes, updated, seal)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, seal('source', ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9));

-- drop_source --
-- It goes.
DELETE FROM sources WHERE collection = ?1 AND source = ?2;

-- put_chunk --
-- A chunk; its seal is made by its number, which comes with it.
INSERT INTO chunks (collection, source, place, body, seal) VALUES (?1, ?2, ?3, ?4, x'') RETURNING number;

-- seal_chunk --
-- Its seal.
UPDATE chunks SET seal = seal('chunk', collection, number, source, place, body) WHERE collection = ?1 AND number = ?2;

-- index_chunk --
-- Its words.
INSERT INTO chunk_words (rowid, heads, words) VALUES (?2, ?3, ?4);

-- words_of --
-- The words of a chunk.
SELECT heads, words FROM chunk_words WHERE rowid = ?2;

-- unindex_chunk --
-- They go.
DELETE FROM chunk_words WHERE rowid = ?2;

-- chunks_of --
-- A source's chunks, in order.
SELECT number, source, place, body, seal FROM chunks WHERE collection = ?1 AND source = ?2 ORDER BY place;

-- chunk --
-- A chunk.
SELECT number, source, place, body, seal FROM chunks WHERE collection = ?1 AND number = ?2;

-- drop_chunks --
-- A source's chunks go.
DELETE FROM chunks WHERE collection = ?1 AND source = ?2;

-- drop_vector --
-- A chunk's vector goes.
DELETE FROM chunk_vectors WHERE collection = ?1 AND chunk = ?2;

-- frequency --
-- In how many chunks a word stands.
SELECT doc FROM chunk_terms WHERE term = ?2;

-- matches --
-- Chunks with one of some words, the best first, roughly: FTS5 counts them with the numbers of all collections.
SELECT rowid, -rank FROM chunk_words WHERE chunk_words MATCH ?2 ORDER BY rank LIMIT ?3;

-- all_matches --
-- All of them, in no order: FTS5 takes twice as long to give them in one.
SELECT rowid, -rank FROM chunk_words WHERE chunk_words MATCH ?2;

-- without_vector --
-- Chunks that have no vector.
SELECT c.number, c.source, c.place, c.body, c.seal FROM chunks c INDEXED BY chunks_by_collection
WHERE c.collection = ?1 AND c.number > ?2
  AND NOT EXISTS (SELECT 1 FROM chunk_vectors v WHERE v.collection = ?1 AND v.chunk = c.number)
ORDER BY c.number LIMIT ?3;

-- put_chunk_vector --
-- A vector of a chunk that is there.
INSERT OR IGNORE INTO chunk_vectors (collection, chunk, vector)
SELECT ?1, number, ?3 FROM chunks WHERE collection = ?1 AND number = ?2;

-- drop_chunk_vectors --
-- All vectors go.
DELETE FROM chunk_vectors WHERE collection = ?1;

-- chunk_vectors --
-- Vectors in the order in which they came.
SELECT number, chunk, vector FROM chunk_vectors INDEXED BY chunk_vectors_by_collection
WHERE collection = ?1 AND number > ?2 ORDER BY number;

-- vector_numbers --
-- Their numbers.
SELECT number FROM chunk_vectors INDEXED BY chunk_vectors_by_collection WHERE collection = ?1 ORDER BY number;
