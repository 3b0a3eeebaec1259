-- Moments are microseconds since 1970-01-01T00:00:00Z. States are the words of the program. Texts are compared byte by
-- byte (COLLATE "C"), as in Python, whatever the database's own collation is.

CREATE TABLE tokimori_jobs (
    incarnation bigint PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    version integer NOT NULL,
    state text NOT NULL,
    reason text,
    "by" text,
    definition text NOT NULL,
    created bigint NOT NULL,
    updated bigint NOT NULL,
    anchor bigint NOT NULL,
    fired_through bigint NOT NULL,
    next_due bigint,
    max_running integer NOT NULL, -- 0: unlimited
    lane text COLLATE "C"         -- of its runs; NULL: they wait nowhere, the job is paused or parked
) WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05);

-- What is due at the same moment is planned in the order of the primary key: neighbours share pages.
CREATE INDEX tokimori_jobs_due ON tokimori_jobs (next_due, incarnation)
WHERE state = 'enabled' AND next_due IS NOT NULL;
-- Those that no moment wakes: few of many.
CREATE INDEX tokimori_jobs_idle ON tokimori_jobs (id) WHERE state = 'enabled' AND next_due IS NULL;

-- Live runs: few, but each goes through three versions, so that dead ones are swept early and by count.
-- (settled_by, settled_token): who settled it last, for a settle whose reply was lost.
CREATE TABLE tokimori_runs (
    id uuid PRIMARY KEY,
    job_id text COLLATE "C" NOT NULL,
    incarnation bigint NOT NULL,
    origin text COLLATE "C" NOT NULL,
    nominal bigint NOT NULL,
    due bigint NOT NULL,
    state text NOT NULL,
    priority integer NOT NULL,
    "rank" bigint NOT NULL,
    lane text COLLATE "C",
    created bigint NOT NULL,
    payload text,
    attempt integer NOT NULL DEFAULT 0,
    failures integer NOT NULL DEFAULT 0,
    lost integer NOT NULL DEFAULT 0,
    token bigint NOT NULL DEFAULT 0,
    node_id uuid,
    pid integer,
    started bigint,
    ended bigint,
    exit_code integer,
    signal integer,
    error text,
    cancel text,
    settled_by uuid,
    settled_token bigint,
    claim_id uuid
) WITH (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000, autovacuum_vacuum_cost_delay = 0,
    autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000
);

CREATE UNIQUE INDEX tokimori_runs_origin ON tokimori_runs (incarnation, origin);
CREATE INDEX tokimori_runs_ready ON tokimori_runs (lane, "rank", id) WHERE state = 'ready' AND lane IS NOT NULL;
CREATE INDEX tokimori_runs_waiting ON tokimori_runs (due) WHERE state = 'waiting';
CREATE INDEX tokimori_runs_blocked ON tokimori_runs (incarnation, "rank", id) WHERE state = 'blocked';
CREATE INDEX tokimori_runs_running ON tokimori_runs (incarnation) WHERE state = 'running';
CREATE INDEX tokimori_runs_owned ON tokimori_runs (node_id, claim_id) WHERE state = 'running';

-- Finished runs.
CREATE TABLE tokimori_history (
    id uuid PRIMARY KEY,
    job_id text COLLATE "C" NOT NULL,
    incarnation bigint NOT NULL,
    origin text COLLATE "C" NOT NULL,
    nominal bigint NOT NULL,
    due bigint NOT NULL,
    state text NOT NULL,
    priority integer NOT NULL,
    "rank" bigint NOT NULL,
    lane text COLLATE "C",
    created bigint NOT NULL,
    payload text,
    attempt integer NOT NULL,
    failures integer NOT NULL,
    lost integer NOT NULL,
    token bigint NOT NULL,
    node_id uuid,
    pid integer,
    started bigint,
    ended bigint,
    exit_code integer,
    signal integer,
    error text,
    cancel text,
    settled_by uuid,
    settled_token bigint
);

CREATE INDEX tokimori_history_job ON tokimori_history (job_id, id);
-- Scheduled origins need no index here: the job's fired_through guards them.
CREATE UNIQUE INDEX tokimori_history_origin ON tokimori_history (incarnation, origin) WHERE origin NOT LIKE 's:%';

CREATE TABLE tokimori_attempts (
    run_id uuid NOT NULL,
    number integer NOT NULL,
    token bigint NOT NULL,
    node_id uuid,
    outcome text NOT NULL,
    pid integer,
    started bigint,
    ended bigint,
    exit_code integer,
    signal integer,
    error text,
    PRIMARY KEY (run_id, number)
);

CREATE TABLE tokimori_outputs (
    run_id uuid NOT NULL,
    attempt integer NOT NULL,
    size bigint NOT NULL,
    head bytea NOT NULL,
    tail bytea NOT NULL,
    settled boolean NOT NULL, -- it came with the attempt's end, and stays
    PRIMARY KEY (run_id, attempt)
);

CREATE TABLE tokimori_skips (
    incarnation bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    count bigint NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (incarnation, first)
);

-- A beat is a new version of its node's row: room for many of them on one page.
CREATE TABLE tokimori_nodes (
    id uuid PRIMARY KEY,
    host text NOT NULL,
    boot_id text NOT NULL,
    pid integer NOT NULL,
    labels text NOT NULL,
    concurrency integer NOT NULL,
    version text NOT NULL,
    started bigint NOT NULL,
    beat bigint NOT NULL,
    state text NOT NULL,
    "left" bigint
) WITH (fillfactor = 20);

CREATE INDEX tokimori_nodes_alive ON tokimori_nodes (id) WHERE state = 'alive';
