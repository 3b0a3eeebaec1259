-- Moments are microseconds since 1970-01-01T00:00:00Z. States are the words of the program. Ids, lanes and states are
-- ASCII by their own rules, and compared byte by byte. Each server knows a collation of its own that compares other texts
-- by code point and takes spaces at the end for what they are; it skips the comment that is meant for the other.

CREATE TABLE tokimori_jobs (
    incarnation BIGINT NOT NULL PRIMARY KEY,
    id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version INTEGER NOT NULL,
    state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    reason LONGTEXT,
    "by" LONGTEXT,
    definition LONGTEXT NOT NULL,
    created BIGINT NOT NULL,
    updated BIGINT NOT NULL,
    anchor BIGINT NOT NULL,
    fired_through BIGINT NOT NULL,
    next_due BIGINT,
    max_running INTEGER NOT NULL, -- 0: unlimited
    lane VARCHAR(2048) CHARACTER SET ascii COLLATE ascii_bin, -- of its runs; NULL: they wait nowhere
    runs_remaining INTEGER, -- NULL: no limit
    tzdata VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- of next_due; empty: unknown
    days_off LONGTEXT, -- JSON
    UNIQUE KEY tokimori_jobs_id (id),
    KEY tokimori_jobs_due (state, next_due, incarnation),
    KEY tokimori_jobs_tzdata (state, tzdata, incarnation)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4
    COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;

-- Live runs. (settled_by, settled_token): who settled it last, for a settle whose reply was lost.
CREATE TABLE tokimori_runs (
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    job_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    incarnation BIGINT NOT NULL,
    origin VARCHAR(300) NOT NULL,
    nominal BIGINT NOT NULL,
    due BIGINT NOT NULL,
    state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    priority INTEGER NOT NULL,
    "rank" BIGINT NOT NULL,
    lane VARCHAR(2048) CHARACTER SET ascii COLLATE ascii_bin,
    created BIGINT NOT NULL,
    payload LONGTEXT,
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    token BIGINT NOT NULL,
    node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    pid INTEGER,
    started BIGINT,
    ended BIGINT,
    exit_code INTEGER,
    "signal" INTEGER,
    error LONGTEXT,
    cancel LONGTEXT,
    tzdata VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    settled_by CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    settled_token BIGINT,
    claim_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    UNIQUE KEY tokimori_runs_origin (incarnation, origin),
    KEY tokimori_runs_ready (state, lane, "rank", id),
    KEY tokimori_runs_waiting (state, due),
    KEY tokimori_runs_line (incarnation, state, "rank", id),
    KEY tokimori_runs_owned (state, node_id, claim_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4
    COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;

-- Finished runs. Scheduled origins need no index here: the job's fired_through guards them.
CREATE TABLE tokimori_history (
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    job_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    incarnation BIGINT NOT NULL,
    origin VARCHAR(300) NOT NULL,
    nominal BIGINT NOT NULL,
    due BIGINT NOT NULL,
    state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    priority INTEGER NOT NULL,
    "rank" BIGINT NOT NULL,
    lane VARCHAR(2048) CHARACTER SET ascii COLLATE ascii_bin,
    created BIGINT NOT NULL,
    payload LONGTEXT,
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    token BIGINT NOT NULL,
    node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    pid INTEGER,
    started BIGINT,
    ended BIGINT,
    exit_code INTEGER,
    "signal" INTEGER,
    error LONGTEXT,
    cancel LONGTEXT,
    tzdata VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin,
    settled_by CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    settled_token BIGINT,
    request VARCHAR(300) GENERATED ALWAYS AS (CASE WHEN LEFT(origin, 2) = 's:' THEN NULL ELSE origin END) STORED,
    KEY tokimori_history_job (job_id, id),
    UNIQUE KEY tokimori_history_request (incarnation, request)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4
    COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;

CREATE TABLE tokimori_attempts (
    run_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    number INTEGER NOT NULL,
    token BIGINT NOT NULL,
    node_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
    outcome VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    pid INTEGER,
    started BIGINT,
    ended BIGINT,
    exit_code INTEGER,
    "signal" INTEGER,
    error LONGTEXT,
    PRIMARY KEY (run_id, number)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4
    COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;

CREATE TABLE tokimori_outputs (
    run_id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    attempt INTEGER NOT NULL,
    size BIGINT NOT NULL,
    head MEDIUMBLOB NOT NULL,
    tail MEDIUMBLOB NOT NULL,
    settled BOOLEAN NOT NULL, -- it came with the attempt's end, and stays
    PRIMARY KEY (run_id, attempt)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE tokimori_skips (
    incarnation BIGINT NOT NULL,
    first BIGINT NOT NULL,
    last BIGINT NOT NULL,
    count BIGINT NOT NULL,
    reason VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (incarnation, first)
) ENGINE = InnoDB;

-- A node's row is locked by what must find it alive. Its beats, which must wait for none of that, are in a row apart,
-- there as long as the node lives; `beat` here is the last one of a node that went.
CREATE TABLE tokimori_nodes (
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    host LONGTEXT NOT NULL,
    boot_id LONGTEXT NOT NULL,
    pid INTEGER NOT NULL,
    labels LONGTEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    version LONGTEXT NOT NULL,
    started BIGINT NOT NULL,
    beat BIGINT NOT NULL,
    state VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    "left" BIGINT
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC CHARACTER SET utf8mb4
    COLLATE /*M!100600 utf8mb4_nopad_bin */ /*!80000 utf8mb4_0900_bin */;

CREATE TABLE tokimori_beats (
    id CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
    beat BIGINT NOT NULL
) ENGINE = InnoDB;
