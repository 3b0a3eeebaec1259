-- Semaphores with their holders, the keys of runs, and the line in which a blocked run stands. Older nodes never claim
-- a run of a job with any of these: its lane says that they are of a newer format.
-- Nodes since schema 4 work on this one.

CREATE TABLE tokimori_semaphores (
    name TEXT PRIMARY KEY NOT NULL,
    "limit" INTEGER NOT NULL,
    granted INTEGER NOT NULL DEFAULT 0 -- how often programs got units: the token of the newest grant
) WITHOUT ROWID;

-- Units that runs and programs hold, one row for each semaphore, and programs that wait for theirs.
CREATE TABLE tokimori_permits (
    id TEXT PRIMARY KEY NOT NULL,
    semaphore TEXT NOT NULL,
    node_id TEXT NOT NULL,
    run_id TEXT, -- NULL: a program's
    weight INTEGER NOT NULL,
    "rank" INTEGER NOT NULL,
    token INTEGER, -- NULL: it stands in line
    since INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX tokimori_permits_held ON tokimori_permits (semaphore, since, id, weight, token) WHERE token IS NOT NULL;
CREATE INDEX tokimori_permits_line ON tokimori_permits (semaphore, "rank", id, weight, token) WHERE token IS NULL;
CREATE INDEX tokimori_permits_run ON tokimori_permits (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX tokimori_permits_node ON tokimori_permits (node_id);

ALTER TABLE tokimori_jobs ADD COLUMN semaphores TEXT;       -- JSON: [[name, weight], …] by name; NULL: none
ALTER TABLE tokimori_jobs ADD COLUMN max_per_key INTEGER;   -- NULL: 1
ALTER TABLE tokimori_runs ADD COLUMN concurrency_key TEXT;
ALTER TABLE tokimori_runs ADD COLUMN blocked_on TEXT;       -- 'key', 'semaphore:NAME'; NULL: the limit, if any
ALTER TABLE tokimori_runs ADD COLUMN holds INTEGER;         -- 1: it has permits; NULL: none
ALTER TABLE tokimori_history ADD COLUMN concurrency_key TEXT;
ALTER TABLE tokimori_history ADD COLUMN blocked_on TEXT;    -- NULL

DROP INDEX tokimori_runs_blocked;
CREATE INDEX tokimori_runs_blocked ON tokimori_runs (incarnation, blocked_on, "rank", id) WHERE state = 'blocked';
CREATE INDEX tokimori_runs_key_line ON tokimori_runs (incarnation, concurrency_key, "rank", id)
WHERE state = 'blocked' AND blocked_on = 'key';
CREATE INDEX tokimori_runs_semaphore_line ON tokimori_runs (blocked_on, lane, "rank", id)
WHERE state = 'blocked' AND blocked_on IS NOT NULL;
CREATE INDEX tokimori_runs_key ON tokimori_runs (incarnation, concurrency_key)
WHERE state = 'running' AND concurrency_key IS NOT NULL;
