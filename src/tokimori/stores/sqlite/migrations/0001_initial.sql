-- Moments are microseconds since 1970-01-01T00:00:00Z. States are the words of the program.

CREATE TABLE tokimori_jobs (
    incarnation INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    state TEXT NOT NULL,
    reason TEXT,
    "by" TEXT,
    definition TEXT NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    anchor INTEGER NOT NULL,
    fired_through INTEGER NOT NULL,
    next_due INTEGER,
    max_running INTEGER NOT NULL, -- 0: unlimited
    lane TEXT                     -- of its runs; NULL: they wait nowhere, the job is paused or parked
);

-- What is due at the same moment is planned in the order of the table: neighbours share pages.
CREATE INDEX tokimori_jobs_due ON tokimori_jobs (next_due, incarnation)
WHERE state = 'enabled' AND next_due IS NOT NULL;
-- Jobs without a next moment, @reboot among them, are looked for at the start of every node.
CREATE INDEX tokimori_jobs_idle ON tokimori_jobs (id) WHERE state = 'enabled' AND next_due IS NULL;

-- Live runs. (settled_by, settled_token): who settled it last, for a settle whose reply was lost.
CREATE TABLE tokimori_runs (
    id TEXT PRIMARY KEY NOT NULL,
    job_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    origin TEXT NOT NULL,
    nominal INTEGER NOT NULL,
    due INTEGER NOT NULL,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,
    "rank" INTEGER NOT NULL,
    lane TEXT,
    created INTEGER NOT NULL,
    payload TEXT,
    attempt INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0,
    token INTEGER NOT NULL DEFAULT 0,
    node_id TEXT,
    pid INTEGER,
    started INTEGER,
    ended INTEGER,
    exit_code INTEGER,
    signal INTEGER,
    error TEXT,
    cancel TEXT,
    settled_by TEXT,
    settled_token INTEGER,
    claim_id TEXT
) WITHOUT ROWID;

CREATE UNIQUE INDEX tokimori_runs_origin ON tokimori_runs (incarnation, origin);
CREATE INDEX tokimori_runs_ready ON tokimori_runs (lane, "rank", id) WHERE state = 'ready' AND lane IS NOT NULL;
CREATE INDEX tokimori_runs_waiting ON tokimori_runs (due) WHERE state = 'waiting';
CREATE INDEX tokimori_runs_blocked ON tokimori_runs (incarnation, "rank", id) WHERE state = 'blocked';
CREATE INDEX tokimori_runs_running ON tokimori_runs (incarnation) WHERE state = 'running';
CREATE INDEX tokimori_runs_owned ON tokimori_runs (node_id, claim_id) WHERE state = 'running';

-- Finished runs.
CREATE TABLE tokimori_history (
    id TEXT PRIMARY KEY NOT NULL,
    job_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    origin TEXT NOT NULL,
    nominal INTEGER NOT NULL,
    due INTEGER NOT NULL,
    state TEXT NOT NULL,
    priority INTEGER NOT NULL,
    "rank" INTEGER NOT NULL,
    lane TEXT,
    created INTEGER NOT NULL,
    payload TEXT,
    attempt INTEGER NOT NULL,
    failures INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    token INTEGER NOT NULL,
    node_id TEXT,
    pid INTEGER,
    started INTEGER,
    ended INTEGER,
    exit_code INTEGER,
    signal INTEGER,
    error TEXT,
    cancel TEXT,
    settled_by TEXT,
    settled_token INTEGER
) WITHOUT ROWID;

CREATE INDEX tokimori_history_job ON tokimori_history (job_id, id);
-- Scheduled origins need no index here: the job's fired_through guards them.
CREATE UNIQUE INDEX tokimori_history_origin ON tokimori_history (incarnation, origin) WHERE origin NOT LIKE 's:%';

CREATE TABLE tokimori_attempts (
    run_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    token INTEGER NOT NULL,
    node_id TEXT,
    outcome TEXT NOT NULL,
    pid INTEGER,
    started INTEGER,
    ended INTEGER,
    exit_code INTEGER,
    signal INTEGER,
    error TEXT,
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;

CREATE TABLE tokimori_outputs (
    run_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    size INTEGER NOT NULL,
    head BLOB NOT NULL,
    tail BLOB NOT NULL,
    settled INTEGER NOT NULL, -- 1: it came with the attempt's end, and stays
    PRIMARY KEY (run_id, attempt)
);

CREATE TABLE tokimori_skips (
    incarnation INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    count INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (incarnation, first)
) WITHOUT ROWID;

CREATE TABLE tokimori_nodes (
    id TEXT PRIMARY KEY NOT NULL,
    host TEXT NOT NULL,
    boot_id TEXT NOT NULL,
    pid INTEGER NOT NULL,
    labels TEXT NOT NULL,
    concurrency INTEGER NOT NULL,
    version TEXT NOT NULL,
    started INTEGER NOT NULL,
    beat INTEGER NOT NULL,
    state TEXT NOT NULL,
    "left" INTEGER
) WITHOUT ROWID;

CREATE INDEX tokimori_nodes_alive ON tokimori_nodes (id) WHERE state = 'alive';
