-- Moments are microseconds since 1970-01-01T00:00:00Z. States are the words of the program.

CREATE TABLE tokimori_jobs (
    incarnation INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE, version INTEGER NOT NULL, state TEXT NOT NULL, reason TEXT, "by" TEXT,
    definition TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL,
    anchor INTEGER NOT NULL, fired_through INTEGER NOT NULL, next_due INTEGER,
    max_running INTEGER NOT NULL,    -- 0: unlimited
    lane TEXT,                       -- of its runs; NULL: they wait nowhere, the job is paused or parked
    runs_remaining INTEGER,          -- NULL: no limit
    tzdata TEXT NOT NULL DEFAULT '', -- the version of the time zone data by which next_due was reckoned; empty: unknown
    days_off TEXT,                   -- JSON
    most_active INTEGER,             -- how many runs may be active, those that wait included; NULL: any number
    semaphores TEXT,                 -- JSON: [[name, weight], …] by name; NULL: none
    max_per_key INTEGER,             -- NULL: 1
    priority INTEGER NOT NULL,
    head_start INTEGER NOT NULL,     -- how much the priority takes from the rank of a run
    concurrency_key TEXT, queue TEXT NOT NULL
);
CREATE INDEX tokimori_jobs_queue ON tokimori_jobs (queue);
-- What is due at the same moment is planned in the order of the table: neighbours share pages.
CREATE INDEX tokimori_jobs_due ON tokimori_jobs (next_due, incarnation)
WHERE state = 'enabled' AND next_due IS NOT NULL;
-- Jobs without a next moment, @reboot among them, are looked for at the start of every node.
CREATE INDEX tokimori_jobs_idle ON tokimori_jobs (id) WHERE state = 'enabled' AND next_due IS NULL;
-- A node that starts looks for moments that were reckoned by another version of the time zone data.
CREATE INDEX tokimori_jobs_tzdata ON tokimori_jobs (tzdata, incarnation)
WHERE state = 'enabled' AND next_due IS NOT NULL;

-- Jobs that were changed or deleted and whose runs have not all followed yet.
CREATE TABLE tokimori_moves (
    incarnation INTEGER PRIMARY KEY NOT NULL,
    origin TEXT NOT NULL,    -- the runs up to this origin have followed
    woken INTEGER NOT NULL,  -- how many ran when it began, or have been woken since
    forced_lane TEXT,        -- of the runs that have a lane, where the job was stopped and still is
    names TEXT NOT NULL,     -- JSON
    reason TEXT,             -- why the runs end: the job is deleted
    since INTEGER NOT NULL,
    priority_was INTEGER     -- runs with this priority get that of the job; NULL: they have it
);

-- Live runs. (settled_by, settled_token): who settled it last, for a settle whose reply was lost.
CREATE TABLE tokimori_runs (
    id TEXT PRIMARY KEY NOT NULL,
    job_id TEXT NOT NULL, incarnation INTEGER NOT NULL, origin TEXT NOT NULL,
    nominal INTEGER NOT NULL, due INTEGER NOT NULL, state TEXT NOT NULL, priority INTEGER NOT NULL,
    "rank" INTEGER NOT NULL, lane TEXT, created INTEGER NOT NULL, payload TEXT,
    attempt INTEGER NOT NULL DEFAULT 0, failures INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0, token INTEGER NOT NULL DEFAULT 0, node_id TEXT, pid INTEGER,
    started INTEGER, ended INTEGER, exit_code INTEGER, signal INTEGER, error TEXT, cancel TEXT,
    details TEXT,                    -- JSON: facts that no statement looks at
    parent_id TEXT, root TEXT, result TEXT, concurrency_key TEXT,
    blocked_on TEXT, -- 'key', 'semaphore:NAME'; NULL: the limit, if any
    settled_by TEXT, settled_token INTEGER, claim_id TEXT,
    cpu INTEGER, memory INTEGER, -- what its newest attempt cost: microseconds, and bytes
    holds INTEGER    -- 1: it has permits; NULL: none
) WITHOUT ROWID;
CREATE UNIQUE INDEX tokimori_runs_origin ON tokimori_runs (incarnation, origin);
CREATE INDEX tokimori_runs_ready ON tokimori_runs (lane, "rank", id) WHERE state = 'ready' AND lane IS NOT NULL;
CREATE INDEX tokimori_runs_waiting ON tokimori_runs (due) WHERE state = 'waiting';
CREATE INDEX tokimori_runs_blocked ON tokimori_runs (incarnation, blocked_on, "rank", id) WHERE state = 'blocked';
CREATE INDEX tokimori_runs_key_line ON tokimori_runs (incarnation, concurrency_key, "rank", id)
WHERE state = 'blocked' AND blocked_on = 'key';
CREATE INDEX tokimori_runs_semaphore_line ON tokimori_runs (blocked_on, lane, "rank", id)
WHERE state = 'blocked' AND blocked_on IS NOT NULL;
CREATE INDEX tokimori_runs_running ON tokimori_runs (incarnation) WHERE state = 'running';
CREATE INDEX tokimori_runs_key ON tokimori_runs (incarnation, concurrency_key)
WHERE state = 'running' AND concurrency_key IS NOT NULL;
CREATE INDEX tokimori_runs_owned ON tokimori_runs (node_id, claim_id) WHERE state = 'running';
-- For lists, and no other statement: none but these looks at created. What runs is not here, so that claims write nothing.
CREATE INDEX tokimori_runs_state_live ON tokimori_runs (lower(state), id) WHERE state <> 'running' AND created >= 0;
CREATE INDEX tokimori_runs_job_live ON tokimori_runs (job_id, trim(state), id)
WHERE state <> 'running' AND created >= 0;

-- Finished runs. `blocked_on` is NULL in all of them.
CREATE TABLE tokimori_history (
    id TEXT PRIMARY KEY NOT NULL,
    job_id TEXT NOT NULL, incarnation INTEGER NOT NULL, origin TEXT NOT NULL,
    nominal INTEGER NOT NULL, due INTEGER NOT NULL, state TEXT NOT NULL, priority INTEGER NOT NULL,
    "rank" INTEGER NOT NULL, lane TEXT, created INTEGER NOT NULL, payload TEXT,
    attempt INTEGER NOT NULL, failures INTEGER NOT NULL, lost INTEGER NOT NULL,
    token INTEGER NOT NULL, node_id TEXT, pid INTEGER, started INTEGER, ended INTEGER,
    exit_code INTEGER, signal INTEGER, error TEXT, cancel TEXT,
    details TEXT,                    -- JSON: facts that no statement looks at
    parent_id TEXT, root TEXT, result TEXT, concurrency_key TEXT, blocked_on TEXT, settled_by TEXT,
    settled_token INTEGER, cpu INTEGER, memory INTEGER,
    written INTEGER NOT NULL DEFAULT (CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000) -- of a copy: 0
) WITHOUT ROWID;
CREATE INDEX tokimori_history_written ON tokimori_history (written);
-- With `ended`, as pruning does not read rows for it: it stands behind payloads.
CREATE INDEX tokimori_history_job ON tokimori_history (job_id, id, ended);
CREATE INDEX tokimori_history_state_ends ON tokimori_history (state, id) WHERE state <> 'succeeded';
CREATE INDEX tokimori_history_job_ends ON tokimori_history (job_id, state, id) WHERE state <> 'succeeded';
-- Scheduled origins need no index here: the job's fired_through guards them.
CREATE UNIQUE INDEX tokimori_history_origin ON tokimori_history (incarnation, origin) WHERE origin NOT LIKE 's:%';

CREATE TABLE tokimori_attempts (
    run_id TEXT NOT NULL, number INTEGER NOT NULL, token INTEGER NOT NULL, node_id TEXT,
    outcome TEXT NOT NULL, pid INTEGER, started INTEGER, ended INTEGER, exit_code INTEGER,
    signal INTEGER, error TEXT, cpu INTEGER, memory INTEGER,
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;

CREATE TABLE tokimori_outputs (
    run_id TEXT NOT NULL, attempt INTEGER NOT NULL, size INTEGER NOT NULL, head BLOB NOT NULL,
    tail BLOB NOT NULL, times BLOB NOT NULL,
    settled INTEGER NOT NULL, -- 1: it came with the attempt's end, and stays
    PRIMARY KEY (run_id, attempt)
);

CREATE TABLE tokimori_skips (
    incarnation INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,
    count INTEGER NOT NULL, reason TEXT NOT NULL,
    PRIMARY KEY (incarnation, first)
) WITHOUT ROWID;

-- What became of pruned rows.
CREATE TABLE tokimori_counts (
    job_id TEXT NOT NULL, incarnation INTEGER NOT NULL,
    day INTEGER NOT NULL,  -- midnight UTC: of a run's end, of a skip's last moment
    outcome TEXT NOT NULL, -- the last state of runs, or the reason of skips
    count INTEGER NOT NULL,
    PRIMARY KEY (job_id, incarnation, day, outcome)
) WITHOUT ROWID;

-- Jobs that are gone, whose rows are still to be pruned, and what is kept of one while a run of it runs.
CREATE TABLE tokimori_deleted_jobs (
    incarnation INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL, version INTEGER,
    definition TEXT, -- NULL: nothing of it ran
    created INTEGER,
    deleted INTEGER
);
CREATE INDEX tokimori_deleted_jobs_id ON tokimori_deleted_jobs (job_id);

-- Which run took over what a request asked for, so that whoever lost the reply gets the same answer: for an hour.
CREATE TABLE tokimori_requests (
    id TEXT PRIMARY KEY NOT NULL,
    run_id TEXT NOT NULL,
    asked INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tokimori_requests_asked ON tokimori_requests (asked);

CREATE TABLE tokimori_nodes (
    id TEXT PRIMARY KEY NOT NULL,
    host TEXT NOT NULL, boot_id TEXT NOT NULL, pid INTEGER NOT NULL, labels TEXT NOT NULL,
    concurrency INTEGER NOT NULL, version TEXT NOT NULL, started INTEGER NOT NULL,
    beat INTEGER NOT NULL, state TEXT NOT NULL,
    "left" INTEGER
) WITHOUT ROWID;
CREATE INDEX tokimori_nodes_alive ON tokimori_nodes (id) WHERE state = 'alive';
CREATE INDEX tokimori_nodes_gone ON tokimori_nodes ("left") WHERE state <> 'alive';

-- Which jobs run after which.
CREATE TABLE tokimori_edges (
    -- First the key: SQLite's quick check takes the columns of such a table for those of its index.
    parent TEXT NOT NULL, child TEXT NOT NULL, "on" TEXT NOT NULL, declared_by TEXT NOT NULL,
    joins INTEGER NOT NULL, -- how many parents the child waits for; 0: for this one alone
    PRIMARY KEY (parent, child, "on", declared_by)
) WITHOUT ROWID;
CREATE INDEX tokimori_edges_declared ON tokimori_edges (declared_by);

-- At most one row, whose version grows with every change of the edges.
CREATE TABLE tokimori_family (one INTEGER PRIMARY KEY, version INTEGER NOT NULL);

-- For a child that waits for all of its parents, and a root: those that have ended as asked.
CREATE TABLE tokimori_arrivals (
    incarnation INTEGER NOT NULL, root TEXT NOT NULL, parents TEXT NOT NULL,
    latest INTEGER NOT NULL, -- when the latest of them ended
    PRIMARY KEY (incarnation, root)
) WITHOUT ROWID;
CREATE INDEX tokimori_arrivals_old ON tokimori_arrivals (incarnation, latest);

CREATE TABLE tokimori_semaphores (
    name TEXT PRIMARY KEY NOT NULL,
    "limit" INTEGER NOT NULL,
    granted INTEGER NOT NULL DEFAULT 0, -- how often programs got units: the token of the newest grant
    rate TEXT,     -- N/period, in microseconds, or N/period/smooth; NULL: none. Of one without a rate these are empty:
    wakes INTEGER, -- when its line goes on by itself
    turn TEXT,     -- the lane that is next
    kept INTEGER NOT NULL DEFAULT 0,  -- 1: up to `until` no other lane takes units
    woken INTEGER NOT NULL DEFAULT 0, -- units of runs that were woken: up to `until` they are theirs
    until INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
CREATE INDEX tokimori_semaphores_wakes ON tokimori_semaphores (wakes) WHERE wakes IS NOT NULL;

-- Units that were taken of a rate, those of a moment together: all that may count, and the newest.
CREATE TABLE tokimori_taken (
    semaphore TEXT NOT NULL, -- of a job's rate the part before the @
    moment INTEGER NOT NULL, units INTEGER NOT NULL,
    total INTEGER NOT NULL,  -- with all before them
    PRIMARY KEY (semaphore, moment)
) WITHOUT ROWID;

-- Units that runs and programs hold, one row for each semaphore, and programs that wait for theirs.
CREATE TABLE tokimori_permits (
    id TEXT PRIMARY KEY NOT NULL,
    semaphore TEXT NOT NULL, node_id TEXT NOT NULL,
    run_id TEXT, -- NULL: a program's
    weight INTEGER NOT NULL, "rank" INTEGER NOT NULL,
    token INTEGER, -- NULL: it stands in line
    since INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX tokimori_permits_held ON tokimori_permits (semaphore, since, id, weight, token) WHERE token IS NOT NULL;
CREATE INDEX tokimori_permits_line ON tokimori_permits (semaphore, "rank", id, weight, token) WHERE token IS NULL;
CREATE INDEX tokimori_permits_run ON tokimori_permits (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX tokimori_permits_node ON tokimori_permits (node_id);

-- At most one row: the newest token of programs' grants of all semaphores that were deleted. Those of a semaphore that is
-- made anew begin above it, so that who held one of that name before has none that is greater.
CREATE TABLE tokimori_tokens (one INTEGER PRIMARY KEY NOT NULL, newest INTEGER NOT NULL) WITHOUT ROWID;

-- Paused queues.
CREATE TABLE tokimori_pauses (
    queue TEXT PRIMARY KEY NOT NULL, -- *: everything
    since INTEGER NOT NULL, reason TEXT,
    "by" TEXT
) WITHOUT ROWID;

-- Documents: texts that people change and nodes never ask for, such as calendars. Versions are below 2^63.
CREATE TABLE tokimori_documents (
    kind TEXT NOT NULL, name TEXT NOT NULL, text TEXT NOT NULL, version INTEGER NOT NULL,
    PRIMARY KEY (kind, name)
);
