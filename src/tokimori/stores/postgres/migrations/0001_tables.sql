-- Moments are microseconds since 1970-01-01T00:00:00Z. States are the words of the program. Texts are compared byte by
-- byte (COLLATE "C"), as in Python, whatever the database's own collation is.

CREATE TABLE tokimori_jobs (
    incarnation bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    version integer NOT NULL, state text NOT NULL, reason text, "by" text, definition text NOT NULL,
    created bigint NOT NULL, updated bigint NOT NULL, anchor bigint NOT NULL,
    fired_through bigint NOT NULL, next_due bigint,
    runs_remaining integer,                         -- NULL: no limit
    tzdata text COLLATE "C" NOT NULL DEFAULT '',    -- of the time zone data that next_due is from; empty: unknown
    days_off text,                                  -- JSON
    -- What follows repeats terms of the definition, for statements that look at them.
    lane text COLLATE "C",                          -- of its runs; NULL: they wait nowhere, the job is paused or parked
    max_running integer NOT NULL,                   -- 0: unlimited
    max_per_key integer,                            -- NULL: 1
    most_active integer,                            -- NULL: any number
    semaphores text,                                -- JSON: [[name, weight], ...] by name; NULL: none
    priority integer NOT NULL,
    head_start bigint NOT NULL,                     -- how much the priority takes from the rank of a run
    concurrency_key text COLLATE "C",
    queue text COLLATE "C" NOT NULL
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- Jobs that are due at the same moment are planned in the order of the primary key: neighbours share pages.
CREATE INDEX tokimori_jobs_due ON tokimori_jobs (next_due, incarnation)
WHERE state = 'enabled' AND next_due IS NOT NULL;
CREATE INDEX tokimori_jobs_idle ON tokimori_jobs (id) WHERE state = 'enabled' AND next_due IS NULL; -- few of many
-- For a node that starts, by the time zone data of next_due. The last condition keeps lookups of what is due away.
CREATE INDEX tokimori_jobs_tzdata ON tokimori_jobs (tzdata, incarnation)
WHERE state = 'enabled' AND next_due IS NOT NULL AND tzdata IS NOT NULL;

-- Deleted jobs of which rows are left. Where a run of the job runs, its definition is kept, too.
CREATE TABLE tokimori_deleted_jobs (
    incarnation bigint PRIMARY KEY,
    job_id text COLLATE "C" NOT NULL, version integer,
    definition text, -- NULL: nothing of it ran
    created bigint,
    deleted bigint
);
CREATE INDEX tokimori_deleted_jobs_id ON tokimori_deleted_jobs (job_id);

-- Jobs that were changed or deleted and whose runs have not all followed yet. `names` are the semaphores that they wanted.
CREATE TABLE tokimori_moves (
    incarnation bigint PRIMARY KEY,
    origin text COLLATE "C" NOT NULL, -- the runs up to this origin have followed
    woken integer NOT NULL,           -- how many ran when it began, or have been woken since
    forced_lane text COLLATE "C",     -- of the runs that have a lane, where the job was stopped and still is
    names text[] NOT NULL,
    reason text,                      -- why the runs end: the job is deleted
    since bigint NOT NULL,
    priority_was integer              -- runs with this priority get that of the job; NULL: they have it
);

-- Live runs: few, but each goes through three versions, so that dead ones are swept early and by count. Half of each
-- page, and of the two indexes that all versions are in, is free for the next ones: one on another page costs more.
CREATE TABLE tokimori_runs (
    id uuid PRIMARY KEY WITH (fillfactor = 50),
    job_id text COLLATE "C" NOT NULL, incarnation bigint NOT NULL, origin text COLLATE "C" NOT NULL,
    nominal bigint NOT NULL, due bigint NOT NULL, state text NOT NULL, priority integer NOT NULL,
    "rank" bigint NOT NULL, lane text COLLATE "C",
    created bigint NOT NULL, payload text, attempt integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0, lost integer NOT NULL DEFAULT 0,
    token bigint NOT NULL DEFAULT 0, node_id uuid, pid integer, started bigint, ended bigint,
    exit_code integer, signal integer, error text, cancel text,
    details text,                -- JSON: facts that no statement looks at
    parent_id uuid, root text, result text, concurrency_key text COLLATE "C",
    blocked_on text COLLATE "C", -- 'key', 'semaphore:NAME'; NULL: the job's limit
    settled_by uuid,             -- with settled_token: who settled it last, for a settle whose reply was lost
    settled_token bigint,
    cpu bigint, memory bigint    -- what its newest attempt cost: microseconds, and bytes
) WITH (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000
);
-- Finished runs: what a live one knows, but for the columns that are added here.
CREATE TABLE tokimori_history (LIKE tokimori_runs, PRIMARY KEY (id));
ALTER TABLE tokimori_history ADD COLUMN
    written bigint NOT NULL DEFAULT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint; -- of a copy: 0
ALTER TABLE tokimori_runs ADD COLUMN claim_id uuid;

CREATE UNIQUE INDEX tokimori_runs_origin ON tokimori_runs (incarnation, origin) WITH (fillfactor = 50);
CREATE INDEX tokimori_runs_ready ON tokimori_runs (lane, "rank", id) WHERE state = 'ready';
CREATE INDEX tokimori_runs_waiting ON tokimori_runs (due) WHERE state = 'waiting';
-- The lines: of jobs' limits; of keys and semaphores, by lane; of one key.
CREATE INDEX tokimori_runs_blocked ON tokimori_runs (incarnation, "rank", id)
WHERE state = 'blocked' AND blocked_on IS NULL;
CREATE INDEX tokimori_runs_line ON tokimori_runs (blocked_on, lane, "rank", id)
WHERE state = 'blocked' AND blocked_on IS NOT NULL AND lane IS NOT NULL;
CREATE INDEX tokimori_runs_key ON tokimori_runs (incarnation, concurrency_key, state, "rank", id)
WHERE concurrency_key IS NOT NULL;
-- Running runs, by their job and by their node; the last condition keeps lookups by node away from the first index.
-- Their entries are not merged: many are alike, but each is there for a moment, and merging costs a tenth of a claim.
CREATE INDEX tokimori_runs_running ON tokimori_runs (incarnation) WITH (deduplicate_items = off)
WHERE state = 'running' AND incarnation IS NOT NULL;
CREATE INDEX tokimori_runs_owned ON tokimori_runs (node_id, claim_id) WITH (deduplicate_items = off)
WHERE state = 'running';
-- For lists, and no other statement: none but these looks at created. What runs is not here, so that claims write nothing.
-- Promotions write little: what is ready is not in the first.
CREATE INDEX tokimori_runs_state_live ON tokimori_runs (lower(state), id)
WHERE state <> 'running' AND lower(state) <> 'ready' AND created >= 0;
CREATE INDEX tokimori_runs_job_live ON tokimori_runs (job_id, trim(state), id)
WHERE state <> 'running' AND created >= 0;

CREATE INDEX tokimori_history_written ON tokimori_history (written);
CREATE INDEX tokimori_history_job ON tokimori_history (job_id, id);
CREATE INDEX tokimori_history_state_ends ON tokimori_history (state, id) WHERE state <> 'succeeded';
CREATE INDEX tokimori_history_job_ends ON tokimori_history (job_id, state, id) WHERE state <> 'succeeded';
-- Scheduled origins need no index here: the job's fired_through guards them.
CREATE UNIQUE INDEX tokimori_history_origin ON tokimori_history (incarnation, origin) WHERE origin NOT LIKE 's:%';

CREATE TABLE tokimori_attempts (
    run_id uuid NOT NULL, number integer NOT NULL, token bigint NOT NULL, node_id uuid,
    outcome text NOT NULL, pid integer, started bigint, ended bigint, exit_code integer,
    signal integer, error text, cpu bigint, memory bigint,
    PRIMARY KEY (run_id, number)
);

CREATE TABLE tokimori_outputs (
    run_id uuid NOT NULL, attempt integer NOT NULL, size bigint NOT NULL, head bytea NOT NULL,
    tail bytea NOT NULL, times bytea NOT NULL,
    settled boolean NOT NULL, -- it came with the attempt's end, and stays
    PRIMARY KEY (run_id, attempt)
);

CREATE TABLE tokimori_skips (
    incarnation bigint NOT NULL, first bigint NOT NULL, last bigint NOT NULL, count bigint NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (incarnation, first)
);

-- What became of pruned rows.
CREATE TABLE tokimori_counts (
    job_id text COLLATE "C" NOT NULL, incarnation bigint NOT NULL,
    day bigint NOT NULL,   -- midnight UTC: of a run's end, of a skip's last moment
    outcome text NOT NULL, -- the last state of runs, or the reason of skips
    count bigint NOT NULL,
    PRIMARY KEY (job_id, incarnation, day, outcome)
);

-- Which run took over what a request asked for, so that whoever lost the reply gets the same answer: for an hour.
CREATE TABLE tokimori_requests (id uuid PRIMARY KEY, run_id uuid NOT NULL, asked bigint NOT NULL);
CREATE INDEX tokimori_requests_asked ON tokimori_requests (asked);

-- Which jobs run after which.
CREATE TABLE tokimori_edges (
    parent text COLLATE "C" NOT NULL, child text COLLATE "C" NOT NULL, "on" text NOT NULL,
    joins integer NOT NULL,     -- how many parents the child waits for; 0: for this one alone
    declared_by text COLLATE "C" NOT NULL,
    PRIMARY KEY (parent, child, "on", declared_by)
);
CREATE INDEX tokimori_edges_declared ON tokimori_edges (declared_by);

-- At most one row, whose version grows with every change of the edges. It is locked before any gate.
CREATE TABLE tokimori_family (one boolean PRIMARY KEY, version bigint NOT NULL);

-- For a child that waits for all of its parents, and a root: the parents that have ended as asked.
CREATE TABLE tokimori_arrivals (
    incarnation bigint NOT NULL, root text NOT NULL, parents text[] NOT NULL,
    latest bigint NOT NULL, -- when the latest of them ended
    PRIMARY KEY (incarnation, root)
);
CREATE INDEX tokimori_arrivals_old ON tokimori_arrivals (incarnation, latest);

-- Documents: texts that people change and nodes never ask for, such as calendars. Versions are below 2^63.
CREATE TABLE tokimori_documents (
    kind text COLLATE "C" NOT NULL, name text COLLATE "C" NOT NULL,
    text text NOT NULL, version bigint NOT NULL,
    PRIMARY KEY (kind, name)
);

-- Paused queues.
CREATE TABLE tokimori_pauses (
    queue text COLLATE "C" PRIMARY KEY, -- *: everything
    since bigint NOT NULL, reason text,
    "by" text
);

CREATE TABLE tokimori_semaphores (
    name text COLLATE "C" PRIMARY KEY,
    "limit" integer NOT NULL,
    granted bigint NOT NULL DEFAULT 0, -- the newest token that a program got of it
    rate text,    -- N/period, in microseconds, or N/period/smooth; NULL: none. Of one without a rate these are empty:
    wakes bigint, -- when its line goes on by itself
    turn text COLLATE "C",                -- the lane that is next
    kept boolean NOT NULL DEFAULT false,  -- up to `until` no other lane takes units
    woken bigint NOT NULL DEFAULT 0,      -- units of runs that were woken: up to `until` they are theirs
    until bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);
CREATE INDEX tokimori_semaphores_wakes ON tokimori_semaphores (wakes) WHERE wakes IS NOT NULL;

-- Units that were taken of a rate, those of a moment together: all that may count, and the newest.
CREATE TABLE tokimori_taken (
    semaphore text COLLATE "C", -- of a job's rate the part before the @
    moment bigint, units bigint NOT NULL,
    total bigint NOT NULL,      -- with all before them
    PRIMARY KEY (semaphore, moment)
) WITH (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0
);

-- At most one row: the newest token that programs got of semaphores that were deleted. Tokens of a semaphore that is
-- made anew begin above it, so that whoever held one of that name before has none that is greater.
CREATE TABLE tokimori_tokens (one boolean PRIMARY KEY, newest bigint NOT NULL);

-- Units that are held, by runs (a row for each semaphore) and by programs; and programs that stand in line.
CREATE TABLE tokimori_permits (
    id text COLLATE "C" PRIMARY KEY, -- of a run's: RUN/SEMAPHORE
    semaphore text COLLATE "C" NOT NULL, node_id uuid NOT NULL,
    run_id uuid,            -- NULL: a program's
    token bigint,           -- of the run's claim, or of the grant; NULL: it stands in line
    weight integer NOT NULL, "rank" bigint NOT NULL, waiting boolean NOT NULL,
    since bigint NOT NULL
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX tokimori_permits_held ON tokimori_permits (semaphore, since, id) WHERE NOT waiting;
CREATE INDEX tokimori_permits_line ON tokimori_permits (semaphore, "rank", id) WHERE waiting;
CREATE INDEX tokimori_permits_run ON tokimori_permits (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX tokimori_permits_program ON tokimori_permits (node_id) WHERE run_id IS NULL;

-- A beat is a new version of its node's row: there is room for many of them on one page.
CREATE TABLE tokimori_nodes (
    id uuid PRIMARY KEY,
    host text NOT NULL, boot_id text NOT NULL, pid integer NOT NULL, labels text NOT NULL,
    concurrency integer NOT NULL, version text NOT NULL, started bigint NOT NULL,
    beat bigint NOT NULL, state text NOT NULL, "left" bigint,
    functions text -- the digest of the set of functions that it calls
) WITH (fillfactor = 20);

CREATE INDEX tokimori_nodes_alive ON tokimori_nodes (id) WHERE state = 'alive';
CREATE INDEX tokimori_nodes_gone ON tokimori_nodes ("left") WHERE state <> 'alive';

-- Sets of functions that are installed: a program calls the functions whose names end with the digest of its own texts.
CREATE TABLE tokimori_function_sets (
    digest text PRIMARY KEY,
    schema integer NOT NULL, -- the newest that the program knew which installed it
    used bigint NOT NULL     -- when a program last opened the store to use it, to the day
);
