-- Which run took over what a request asked for, so that whoever lost the reply gets the same answer: for an hour.
-- Nodes since schema 4 work on this one.

CREATE TABLE tokimori_requests (
    id TEXT PRIMARY KEY NOT NULL,
    run_id TEXT NOT NULL,
    asked INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tokimori_requests_asked ON tokimori_requests (asked);
