-- Everything here is a projection of the ledger and of repositories. It has no
-- migrations: a file of another version is thrown away and made again.

-- How far each goal's stream is indexed, and the hash of the event there.
CREATE TABLE streams (goal TEXT PRIMARY KEY, through INTEGER NOT NULL, hash TEXT NOT NULL) STRICT, WITHOUT ROWID;

CREATE TABLE docs (
	id      INTEGER PRIMARY KEY,
	goal    TEXT NOT NULL,
	seq     INTEGER NOT NULL,
	op      TEXT NOT NULL,
	event   TEXT NOT NULL,
	cause   TEXT NOT NULL,
	type    TEXT NOT NULL,
	kind    TEXT NOT NULL,
	tool    TEXT NOT NULL,
	outcome TEXT NOT NULL,
	time    INTEGER NOT NULL,
	head    TEXT NOT NULL,
	text    TEXT NOT NULL,
	whole   TEXT NOT NULL,
	act     INTEGER NOT NULL,
	hash    BLOB NOT NULL
) STRICT;
CREATE INDEX docs_seq ON docs (goal, seq);
CREATE INDEX docs_op ON docs (goal, op, seq) WHERE op <> '';
CREATE INDEX docs_act ON docs (goal, act, seq) WHERE act <> 0;
CREATE INDEX docs_event ON docs (event) WHERE kind = 'said';

-- Terms that were taken apart beforehand: the tokenizer only cuts at spaces.
CREATE VIRTUAL TABLE doc_terms USING fts5 (terms, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

-- The tree of each repository that is indexed, and its files by content.
CREATE TABLE trees (root TEXT PRIMARY KEY, tree TEXT NOT NULL, skipped INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE files (root TEXT NOT NULL, path TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (root, path)) STRICT, WITHOUT ROWID;
CREATE TABLE chunks (
	id   INTEGER PRIMARY KEY,
	root TEXT NOT NULL,
	path TEXT NOT NULL,
	line INTEGER NOT NULL,
	text TEXT NOT NULL,
	hash BLOB NOT NULL
) STRICT;
CREATE INDEX chunks_path ON chunks (root, path);
CREATE VIRTUAL TABLE chunk_terms USING fts5 (terms, content = '', contentless_delete = 1, detail = none, tokenize = 'ascii');

-- Vectors by what was embedded, so that equal texts are embedded once.
CREATE TABLE vectors (model TEXT NOT NULL, hash BLOB NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, hash)) STRICT, WITHOUT ROWID;
