-- Moments are microseconds since 1970-01-01T00:00:00Z. States are the words of the program. Ids, lanes and states are
-- ASCII by their own rules, and compared byte by byte. Each server knows a collation of its own that compares other texts
-- by code point and takes spaces at the end for what they are; it skips the comment that is meant for the other.

CREATE TABLE tokimori_jobs (
    incarnation BIGINT NOT NULL PRIMARY KEY, id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version INTEGER NOT NULL, state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reason LONGTEXT, "by" LONGTEXT, definition LONGTEXT NOT NULL, created BIGINT NOT NULL,
    updated BIGINT NOT NULL, anchor BIGINT NOT NULL, fired_through BIGINT NOT NULL, next_due BIGINT,
    max_running INTEGER NOT NULL, -- 0: unlimited
    lane VARCHAR(2048) CHARACTER SET ascii COLLATE ascii_bin, -- of its runs; NULL: they wait nowhere
    runs_remaining INTEGER, -- NULL: no limit
    tzdata VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of next_due; empty: unknown
    days_off LONGTEXT, -- JSON
    most_active INTEGER, -- how many runs may be active, those that wait included; NULL: any number
    semaphores LONGTEXT, -- JSON: [[name, weight], …] by name; NULL: none
    max_per_key INTEGER, -- NULL: 1
    priority INTEGER NOT NULL,
    head_start BIGINT NOT NULL, -- how much the priority takes from the rank of a run
    concurrency_key VARCHAR(255), queue VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    UNIQUE KEY tokimori_jobs_id (id), KEY tokimori_jobs_queue (queue),
    KEY tokimori_jobs_due (state, next_due, incarnation),
    KEY tokimori_jobs_tzdata (state, tzdata, incarnation)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;

-- Jobs that were changed or deleted and whose runs have not all followed yet.
CREATE TABLE tokimori_moves (
    incarnation BIGINT NOT NULL PRIMARY KEY,
    origin VARCHAR(300) NOT NULL, -- the runs up to this origin have followed
    woken INTEGER NOT NULL,       -- how many ran when it began, or have been woken since
    forced_lane VARCHAR(2048),    -- of the runs that have a lane, where the job was stopped and still is
    names LONGTEXT NOT NULL,      -- JSON: semaphores and their weights
    reason TEXT,                  -- why the runs end: the job is deleted
    since BIGINT NOT NULL,
    priority_was INTEGER          -- runs with this priority get that of the job; NULL: they have it
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;

-- Live runs. (settled_by, settled_token): who settled it last, for a settle whose reply was lost.
CREATE TABLE tokimori_runs (
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    job_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    incarnation BIGINT NOT NULL, origin VARCHAR(300) NOT NULL, nominal BIGINT NOT NULL, due BIGINT NOT NULL,
    state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    priority INTEGER NOT NULL, "rank" BIGINT NOT NULL, lane VARCHAR(2048) CHARACTER SET ascii COLLATE ascii_bin,
    created BIGINT NOT NULL, payload LONGTEXT, attempt INTEGER NOT NULL, failures INTEGER NOT NULL,
    lost INTEGER NOT NULL, token BIGINT NOT NULL, node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    pid INTEGER, started BIGINT, ended BIGINT, exit_code INTEGER, "signal" INTEGER, error LONGTEXT, cancel LONGTEXT,
    details LONGTEXT, -- JSON: facts that no statement looks at
    parent_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, root VARCHAR(300) CHARACTER SET ascii COLLATE ascii_bin,
    result LONGTEXT, concurrency_key VARCHAR(255),
    blocked_on VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin, -- 'key', 'semaphore:NAME'; NULL: the limit, if any
    settled_by CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, settled_token BIGINT,
    cpu BIGINT, memory BIGINT -- what its newest attempt cost: microseconds, and bytes
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;

-- Finished runs: what a live one knows, but for what is added here. Scheduled origins need no index: the job's
-- fired_through guards them.
CREATE TABLE tokimori_history LIKE tokimori_runs;
ALTER TABLE tokimori_history
    ADD COLUMN request VARCHAR(300)
        GENERATED ALWAYS AS (CASE WHEN LEFT(origin, 2) = 's:' THEN NULL ELSE origin END) STORED,
    ADD COLUMN written BIGINT NOT NULL DEFAULT (CAST(UNIX_TIMESTAMP(NOW(6)) * 1000000 AS SIGNED)), -- of a copy: 0
    ADD KEY tokimori_history_written (written), ADD KEY tokimori_history_job (job_id, id), ADD KEY tokimori_history_state_ends (state, id),
    ADD KEY tokimori_history_job_ends (job_id, state, id),
    ADD UNIQUE KEY tokimori_history_request (incarnation, request);
ALTER TABLE tokimori_runs
    ADD COLUMN claim_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    ADD COLUMN holds BOOLEAN NOT NULL DEFAULT false, -- permits
    ADD UNIQUE KEY tokimori_runs_origin (incarnation, origin), ADD KEY tokimori_runs_ready (state, lane, "rank", id),
    ADD KEY tokimori_runs_waiting (state, due), ADD KEY tokimori_runs_line (incarnation, state, "rank", id),
    ADD KEY tokimori_runs_owned (state, node_id, claim_id),
    ADD KEY tokimori_runs_job_live (job_id, id), -- for lists
    ADD KEY tokimori_runs_blocked (blocked_on, lane, "rank", id),
    ADD KEY tokimori_runs_keys (incarnation, blocked_on, concurrency_key, "rank", id);

CREATE TABLE tokimori_attempts (
    run_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, number INTEGER NOT NULL, token BIGINT NOT NULL,
    node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    outcome VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    pid INTEGER, started BIGINT, ended BIGINT, exit_code INTEGER, "signal" INTEGER, error LONGTEXT, cpu BIGINT, memory BIGINT,
    PRIMARY KEY (run_id, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;

CREATE TABLE tokimori_outputs (
    run_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    attempt INTEGER NOT NULL, size BIGINT NOT NULL, head MEDIUMBLOB NOT NULL, tail MEDIUMBLOB NOT NULL,
    times MEDIUMBLOB NOT NULL,
    settled BOOLEAN NOT NULL, -- it came with the attempt's end, and stays
    PRIMARY KEY (run_id, attempt)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE tokimori_skips (
    incarnation BIGINT NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, count BIGINT NOT NULL,
    reason VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (incarnation, first)
) ENGINE = InnoDB;

-- What became of pruned rows.
CREATE TABLE tokimori_counts (
    job_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, incarnation BIGINT NOT NULL,
    day BIGINT NOT NULL, -- midnight UTC: of a run's end, of a skip's last moment
    outcome VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the last state of runs, or the reason of skips
    count BIGINT NOT NULL,
    PRIMARY KEY (job_id, incarnation, day, outcome)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Jobs that are gone, whose rows are still to be pruned, and what is kept of one while a run of it runs.
CREATE TABLE tokimori_deleted_jobs (
    incarnation BIGINT NOT NULL PRIMARY KEY, job_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version INTEGER,
    definition LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, -- NULL: nothing of it ran
    created BIGINT, deleted BIGINT,
    KEY tokimori_deleted_jobs_id (job_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Which run took over what a request asked for, so that whoever lost the reply gets the same answer: for an hour.
CREATE TABLE tokimori_requests (
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    run_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, asked BIGINT NOT NULL,
    KEY tokimori_requests_asked (asked)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- A node's row is locked by what must find it alive. Its beats, which must wait for none of that, are in a row apart,
-- there as long as the node lives; `beat` here is the last one of a node that went.
CREATE TABLE tokimori_nodes (
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    host LONGTEXT NOT NULL, boot_id LONGTEXT NOT NULL, pid INTEGER NOT NULL,
    labels LONGTEXT NOT NULL, concurrency INTEGER NOT NULL, version LONGTEXT NOT NULL,
    started BIGINT NOT NULL, beat BIGINT NOT NULL, state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    "left" BIGINT,
    KEY tokimori_nodes_gone ("left")
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;

CREATE TABLE tokimori_beats (
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, beat BIGINT NOT NULL
) ENGINE = InnoDB;

-- Which jobs run after which.
CREATE TABLE tokimori_edges (
    parent VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    child VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    "on" VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    joins INTEGER NOT NULL, -- how many parents the child waits for; 0: for this one alone
    declared_by VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (parent, child, "on", declared_by),
    KEY tokimori_edges_declared (declared_by)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- At most one row, whose version grows with every change of the edges. It is locked before any gate.
CREATE TABLE tokimori_family (one BOOLEAN NOT NULL PRIMARY KEY, version BIGINT NOT NULL) ENGINE = InnoDB;

-- For a child that waits for all of its parents, and a root: those that have ended as asked, between commas.
CREATE TABLE tokimori_arrivals (
    incarnation BIGINT NOT NULL, root VARCHAR(300) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    parents LONGTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    latest BIGINT NOT NULL, -- when the latest of them ended
    PRIMARY KEY (incarnation, root),
    KEY tokimori_arrivals_old (incarnation, latest)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Whoever takes or frees units, or moves the line, locks the row; what is used is counted under that lock, not kept.
CREATE TABLE tokimori_semaphores (
    name VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, "limit" INTEGER NOT NULL,
    granted BIGINT NOT NULL,
    rate VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin, -- N/period, in microseconds, or N/period/smooth; NULL: none
    wakes BIGINT,           -- when its line goes on by itself; this and the others are empty without a rate
    turn LONGTEXT CHARACTER SET ascii COLLATE ascii_bin, -- the lane that is next
    kept BOOLEAN NOT NULL DEFAULT false,  -- up to `until` no other lane takes units
    woken BIGINT NOT NULL DEFAULT 0,      -- units of runs that were woken: up to `until` they are theirs
    until BIGINT NOT NULL DEFAULT 0,
    KEY tokimori_semaphores_wakes (wakes)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- Units that were taken of a rate, those of a moment together: all that may count, and the newest. Of a job's rate the
-- name is the part before the @; `total` is with all before them.
CREATE TABLE tokimori_taken (
    semaphore VARCHAR(160) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, moment BIGINT NOT NULL,
    units BIGINT NOT NULL, total BIGINT NOT NULL,
    PRIMARY KEY (semaphore, moment)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- What runs and programs hold; without a token it is a program's place in line.
CREATE TABLE tokimori_permits (
    id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    semaphore VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    run_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin, -- NULL: a program's
    weight INTEGER NOT NULL, "rank" BIGINT NOT NULL, token BIGINT, since BIGINT NOT NULL,
    KEY tokimori_permits_line (semaphore, token, "rank", id),
    KEY tokimori_permits_owned (node_id, run_id),
    KEY tokimori_permits_run (run_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

-- At most one row: the newest token of programs' grants of all semaphores that were deleted. Those of a semaphore that is
-- made anew begin above it, so that who held one of that name before has none that is greater.
CREATE TABLE tokimori_tokens (one BOOLEAN NOT NULL PRIMARY KEY, newest BIGINT NOT NULL) ENGINE = InnoDB;

-- Paused queues, and the gate: a row with an empty name, whose lock claims share. Nodes make it when they register.
CREATE TABLE tokimori_pauses (
    queue VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY, -- *: everything
    since BIGINT NOT NULL, reason LONGTEXT, "by" LONGTEXT
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;

-- Documents: texts that people change and nodes never ask for, such as calendars. Versions are below 2^63.
CREATE TABLE tokimori_documents (
    kind VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name VARCHAR(255) NOT NULL, text LONGTEXT NOT NULL, version BIGINT NOT NULL,
    PRIMARY KEY (kind, name)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4 COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;
