-- Semaphores, what is held of them, and lines of runs that wait for one, or for a concurrency key.
-- Nodes since schema 3 work on this one.

-- Whoever takes or frees units, or moves the line, locks the row; what is used is counted under that lock, not kept.
CREATE TABLE tokimori_semaphores (
    name VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    "limit" INTEGER NOT NULL,
    granted BIGINT NOT NULL
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What runs and programs hold; without a token it is a program's place in line.
CREATE TABLE tokimori_permits (
    id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    semaphore VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    run_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- NULL: a program's
    weight INTEGER NOT NULL,
    "rank" BIGINT NOT NULL,
    token BIGINT,
    since BIGINT NOT NULL,
    KEY tokimori_permits_line (semaphore, token, "rank", id),
    KEY tokimori_permits_owned (node_id, run_id),
    KEY tokimori_permits_run (run_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

ALTER TABLE tokimori_jobs
    ADD COLUMN semaphores LONGTEXT, -- JSON; NULL: none
    ADD COLUMN max_per_key INTEGER;
ALTER TABLE tokimori_runs
    ADD COLUMN concurrency_key VARCHAR(255),
    ADD COLUMN blocked_on VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin, -- NULL in the line of the job's limit
    ADD COLUMN holds BOOLEAN NOT NULL DEFAULT false, -- permits
    ADD KEY tokimori_runs_blocked (blocked_on, lane, "rank", id),
    ADD KEY tokimori_runs_keys (incarnation, blocked_on, concurrency_key, "rank", id);
ALTER TABLE tokimori_history
    ADD COLUMN concurrency_key VARCHAR(255),
    ADD COLUMN blocked_on VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin;
