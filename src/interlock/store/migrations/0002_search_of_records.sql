-- Searches of the audit log, newest first. SQLite compares all columns of a search within this index, which grows at its
-- end like the index on `at` that it replaces, so a row costs the same to write.
-- only: sqlite
DROP INDEX records_at;
CREATE INDEX records_search ON records (at, chain, seq, event, actor, server, name, trace, result);
-- only: postgres
-- An entry of an index has at most 2,704 bytes there, and six columns of 200 characters can be longer.
DROP INDEX records_at;
CREATE INDEX records_search ON records (at, chain, seq);
