-- What happened, in order, one chain for each node. `body` is what was hashed; the other columns are copied out of it.
CREATE TABLE records (
    chain TEXT NOT NULL,
    seq BIGINT NOT NULL,
    at BIGINT NOT NULL,
    event TEXT NOT NULL,
    actor TEXT NOT NULL,
    server TEXT NOT NULL,
    name TEXT NOT NULL,
    trace TEXT NOT NULL,
    result TEXT NOT NULL,
    body TEXT NOT NULL,
    hash BYTEA NOT NULL,
    PRIMARY KEY (chain, seq)
);
CREATE INDEX records_at ON records (at);

-- Documents of every collection. One that was deleted keeps its row for a while, without a body: others hear of it so.
CREATE TABLE documents (
    collection TEXT NOT NULL,
    key TEXT NOT NULL,
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    changed BIGINT NOT NULL,
    body TEXT,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (collection, key)
);
CREATE INDEX documents_revision ON documents (revision);

-- What documents are found by.
CREATE TABLE document_columns (
    collection TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (collection, name, value, key)
);

-- Which columns each collection had when its documents were last written.
CREATE TABLE document_indexes (
    collection TEXT NOT NULL PRIMARY KEY,
    columns TEXT NOT NULL
);

-- `revision` counts every change of a document; whoever raises it holds its row until the commit.
-- `purged` is the last revision whose deletion may be forgotten.
CREATE TABLE counters (
    name TEXT NOT NULL PRIMARY KEY,
    value BIGINT NOT NULL
);
INSERT INTO counters (name, value) VALUES ('revision', 0), ('purged', 0);
