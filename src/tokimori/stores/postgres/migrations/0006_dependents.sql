-- Which jobs run after which. Programs of older schemas would end a parent without its children, so they are shut out,
-- and the functions that only they call go; what stays has its plain name again.

CREATE TABLE tokimori_edges (
    parent text COLLATE "C" NOT NULL,
    child text COLLATE "C" NOT NULL,
    "on" text NOT NULL,
    joins integer NOT NULL,     -- how many parents the child waits for; 0: for this one alone
    declared_by text COLLATE "C" NOT NULL,
    PRIMARY KEY (parent, child, "on", declared_by)
);
CREATE INDEX tokimori_edges_declared ON tokimori_edges (declared_by);

-- At most one row, whose version grows with every change of the edges. It is locked before any gate.
CREATE TABLE tokimori_family (one boolean PRIMARY KEY, version bigint NOT NULL);

-- For a child that waits for all of its parents, and a root: those that have ended as asked.
CREATE TABLE tokimori_arrivals (
    incarnation bigint NOT NULL,
    root text NOT NULL,
    parents text[] NOT NULL,
    PRIMARY KEY (incarnation, root)
);

ALTER TABLE tokimori_runs ADD COLUMN parent_id uuid, ADD COLUMN root text, ADD COLUMN result text;
ALTER TABLE tokimori_history ADD COLUMN parent_id uuid, ADD COLUMN root text, ADD COLUMN result text;

DROP FUNCTION tokimori_claim, tokimori_claim_4, tokimori_settle, tokimori_add_runs, tokimori_add_runs_4,
    tokimori_replace_job, tokimori_replace_job_4, tokimori_delete_job;

-- Lock the family. False: `_family` is not its version any more (where it is given: to take edges away needs no look at
-- the others).
CREATE FUNCTION tokimori_lock_family(_family bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO tokimori_family (one, version) VALUES (true, 0) ON CONFLICT DO NOTHING;
    PERFORM FROM tokimori_family WHERE version = coalesce(_family, version) FOR UPDATE;
    RETURN FOUND;
END $$;

-- Put the edges that jobs declare now in place of those from before. False: they were checked against another family.
CREATE FUNCTION tokimori_declare(_jobs text[], _edges jsonb, _family bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF NOT tokimori_lock_family(_family) THEN
        RETURN false;
    END IF;
    UPDATE tokimori_family SET version = version + 1;
    DELETE FROM tokimori_edges WHERE declared_by = ANY (_jobs);
    INSERT INTO tokimori_edges (parent, child, "on", joins, declared_by)
    SELECT parent, child, "on", joins, declared_by
    FROM jsonb_to_recordset(_edges) AS e (parent text, child text, "on" text, joins integer, declared_by text);
    RETURN true;
END $$;

-- As before, and the history keeps where a run came from.
CREATE OR REPLACE FUNCTION tokimori_cancel(_ids uuid[], _reason text, _now bigint) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _passed bigint[];
BEGIN
    PERFORM FROM tokimori_runs WHERE id = ANY (_ids) ORDER BY id FOR UPDATE;
    UPDATE tokimori_runs SET cancel = coalesce(cancel, _reason) WHERE id = ANY (_ids) AND state = 'running';
    WITH gone AS (
        DELETE FROM tokimori_runs WHERE id = ANY (_ids) AND state <> 'running' RETURNING *
    ), kept AS (
        INSERT INTO tokimori_history (
            id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, attempt,
            failures, lost, token, node_id, pid, started, ended, exit_code, signal, error, cancel, settled_by,
            settled_token, tzdata, parent_id, root)
        SELECT
            id, job_id, incarnation, origin, nominal, due, 'cancelled', priority, "rank", lane, created, payload,
            attempt, failures, lost, token, node_id, pid, started, _now, exit_code, signal, _reason, cancel, settled_by,
            settled_token, tzdata, parent_id, root
        FROM gone
    )
    SELECT array_agg(incarnation) INTO _passed FROM gone WHERE state = 'ready';
    IF _passed IS NOT NULL THEN
        PERFORM tokimori_wake(_passed);
    END IF;
END $$;

-- Keep requested runs whose jobs exist and are not paused; the lanes by which they were added, others are missing.
CREATE FUNCTION tokimori_add_runs(
    _ids uuid[], _job_ids text[], _incarnations bigint[], _origins text[], _nominals bigint[], _dues bigint[],
    _states text[], _priorities integer[], _ranks bigint[], _created bigint[], _payloads text[],
    _tzdata text[], _parents uuid[], _roots text[]
) RETURNS TABLE (added uuid, added_lane text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _added uuid[];
BEGIN
    PERFORM FROM tokimori_jobs WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_incarnations) i)
    ORDER BY incarnation FOR KEY SHARE;
    WITH born AS (
        INSERT INTO tokimori_runs (
            id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload,
            tzdata, parent_id, root)
        SELECT r.id, j.id, j.incarnation, r.origin, r.nominal, r.due, r.state, r.priority, r."rank", j.lane, r.created,
            r.payload, r.tzdata, r.parent_id, r.root
        FROM unnest(_ids, _job_ids, _incarnations, _origins, _nominals, _dues, _states, _priorities, _ranks, _created,
                _payloads, _tzdata, _parents, _roots)
            AS r (id, job_id, incarnation, origin, nominal, due, state, priority, "rank", created, payload,
                tzdata, parent_id, root)
        JOIN tokimori_jobs j ON j.incarnation = r.incarnation AND j.id = r.job_id
        WHERE j.lane IS NOT NULL
        ORDER BY r.incarnation, r.origin
        ON CONFLICT DO NOTHING RETURNING id
    )
    SELECT array_agg(id) INTO _added FROM born;
    -- Read after the insert, which waits for a settle that moves a run of the same origin to the history.
    DELETE FROM tokimori_runs r USING tokimori_history h
    WHERE r.id = ANY (_added) AND h.incarnation = r.incarnation AND h.origin = r.origin AND h.origin NOT LIKE 's:%';
    RETURN QUERY SELECT id, lane FROM tokimori_runs WHERE id = ANY (_added);
END $$;

-- Put a job in place of another, if it still is what the caller read. `_edges` where they change, `_family` where they
-- were checked against one: 'replaced', 'other job' or 'other family'.
CREATE FUNCTION tokimori_replace_job(
    _incarnation bigint, _old_version integer, _old_state text, _old_fired_through bigint,
    _version integer, _definition text, _state text, _reason text, _by text, _updated bigint, _anchor bigint,
    _fired_through bigint, _next_due bigint, _max_running integer, _lane text,
    _runs_remaining integer, _tzdata text, _days_off text, _skips jsonb,
    _job text, _edges jsonb, _family bigint
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _live uuid[];
BEGIN
    IF _edges IS NOT NULL AND NOT tokimori_lock_family(_family) THEN
        RETURN 'other family';
    END IF;
    PERFORM FROM tokimori_jobs
    WHERE incarnation = _incarnation AND version = _old_version AND state = _old_state
        AND fired_through = _old_fired_through
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'other job';
    END IF;
    IF _edges IS NOT NULL THEN
        PERFORM tokimori_declare(ARRAY[_job], _edges, _family);
    END IF;
    UPDATE tokimori_jobs SET
        version = _version, definition = _definition, state = _state, reason = _reason, "by" = _by, updated = _updated,
        anchor = _anchor, fired_through = greatest(fired_through, _fired_through), next_due = _next_due,
        max_running = _max_running, lane = _lane, runs_remaining = _runs_remaining, tzdata = _tzdata,
        days_off = _days_off
    WHERE incarnation = _incarnation;
    PERFORM tokimori_keep_skips(_skips);
    -- All are locked, also those that run: nothing settles by the old limit once this is done.
    _live := ARRAY(SELECT id FROM tokimori_runs WHERE incarnation = _incarnation ORDER BY id FOR UPDATE);
    UPDATE tokimori_runs SET lane = _lane WHERE incarnation = _incarnation AND lane IS DISTINCT FROM _lane;
    IF _max_running = 0 THEN
        PERFORM tokimori_wake_all(_incarnation);
    ELSE
        PERFORM tokimori_wake(array_fill(_incarnation, ARRAY[cardinality(_live)]));
    END IF;
    RETURN 'replaced';
END $$;

-- Forget a job; whether there was one.
CREATE FUNCTION tokimori_delete_job(_id text, _reason text, _now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _incarnation bigint;
BEGIN
    IF EXISTS (SELECT FROM tokimori_edges WHERE declared_by = _id) THEN
        PERFORM tokimori_declare(ARRAY[_id], '[]', NULL);
    END IF;
    SELECT incarnation INTO _incarnation FROM tokimori_jobs WHERE id = _id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM tokimori_jobs WHERE incarnation = _incarnation;
    PERFORM tokimori_cancel(
        ARRAY(SELECT id FROM tokimori_runs WHERE incarnation = _incarnation AND state <> 'running'), _reason, _now);
    RETURN true;
END $$;

-- Give the node ready runs by (rank, id), each if its job has room; one that has none joins the line. Nothing is waited
-- for: what is locked stays ready. Asked again, the same runs.
CREATE FUNCTION tokimori_claim(_claim uuid, _node uuid, _lanes text[], _limit integer, _most integer)
RETURNS TABLE (
    id uuid, job_id text, incarnation bigint, origin text, nominal bigint, due bigint, state text, priority integer,
    "rank" bigint, lane text, created bigint, payload text, attempt integer, failures integer, lost integer,
    token bigint, node_id uuid, pid integer, started bigint, ended bigint, exit_code integer, signal integer,
    error text, cancel text, tzdata text, parent_id uuid, root text, result text, definition text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _left integer := _limit;  -- how many may still be taken
    _batch integer := _limit;
    _seen integer := 0;
    _found integer;
    _took integer;
    _ids uuid[];
    _jobs bigint[];
    _free bigint[];     -- gates of jobs without a limit, shared with other claims
    _limited bigint[];  -- gates of jobs with one, held alone: who counts must be the only one
    _busy bigint[] := '{}';
BEGIN
    PERFORM FROM tokimori_nodes WHERE id = _node AND state = 'alive' FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM tokimori_runs WHERE state = 'running' AND node_id = _node AND claim_id = _claim) THEN
        _left := 0;
    END IF;
    WHILE _left > 0 AND _seen < _limit + _most LOOP
        SELECT array_agg(c.id), coalesce(array_agg(DISTINCT c.incarnation), '{}'), count(*) INTO _ids, _jobs, _found
        FROM (
            SELECT r.id, r.incarnation FROM unnest(_lanes) AS l (lane) CROSS JOIN LATERAL (
                SELECT id, incarnation, "rank" FROM tokimori_runs
                WHERE state = 'ready' AND lane = l.lane AND incarnation <> ALL (_busy)
                ORDER BY "rank", id LIMIT _batch FOR UPDATE SKIP LOCKED) r
            ORDER BY r."rank", r.id LIMIT _batch) c;
        EXIT WHEN _found = 0;
        _free := ARRAY(
            SELECT j.incarnation FROM unnest(_jobs) AS c (incarnation) JOIN tokimori_jobs j USING (incarnation)
            WHERE j.max_running = 0 AND j.lane IS NOT NULL FOR KEY SHARE OF j SKIP LOCKED);
        _limited := '{}';
        IF cardinality(_free) < cardinality(_jobs) THEN
            _limited := ARRAY(
                SELECT j.incarnation FROM unnest(_jobs) AS c (incarnation) JOIN tokimori_jobs j USING (incarnation)
                WHERE j.max_running > 0 AND j.lane IS NOT NULL FOR NO KEY UPDATE OF j SKIP LOCKED);
            _busy := _busy || ARRAY(SELECT i FROM unnest(_jobs) i WHERE i <> ALL (_free || _limited));
        END IF;
        IF cardinality(_free) = cardinality(_jobs) AND _found <= _left THEN
            UPDATE tokimori_runs SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = _node,
                claim_id = _claim, pid = NULL, started = NULL, exit_code = NULL, signal = NULL, error = NULL
            WHERE id = ANY (_ids);
            _took := _found;
        ELSE
            WITH candidate AS (
                SELECT r.id, j.max_running, row_number() OVER (ORDER BY r."rank", r.id) AS place,
                    row_number() OVER (PARTITION BY r.incarnation ORDER BY r."rank", r.id) + CASE
                        WHEN j.max_running = 0 THEN 0 ELSE (
                            SELECT count(*) FROM tokimori_runs
                            WHERE incarnation = j.incarnation AND state = 'running') END AS nth
                FROM unnest(_ids) AS c (id) JOIN tokimori_runs r ON r.id = c.id
                JOIN tokimori_jobs j ON j.incarnation = r.incarnation
                WHERE r.incarnation = ANY (_free || _limited)
            ), judged AS (
                SELECT id, fits, count(*) FILTER (WHERE fits) OVER (ORDER BY place) AS taken
                FROM (SELECT id, place, max_running = 0 OR nth <= max_running AS fits FROM candidate) c
            ), taken AS (
                UPDATE tokimori_runs r SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = _node,
                    claim_id = _claim, pid = NULL, started = NULL, exit_code = NULL, signal = NULL, error = NULL
                FROM judged c WHERE r.id = c.id AND c.fits AND c.taken <= _left
                RETURNING 1
            ), refused AS (
                UPDATE tokimori_runs r SET state = 'blocked'
                FROM judged c WHERE r.id = c.id AND NOT c.fits AND c.taken < _left
            )
            SELECT count(*) INTO _took FROM taken;
        END IF;
        _left := _left - _took;
        _seen := _seen + _found;
        EXIT WHEN _found < _batch;
        _batch := greatest(_left, least(4 * _batch, 1000));
    END LOOP;
    RETURN QUERY
    SELECT r.id, r.job_id, r.incarnation, r.origin, r.nominal, r.due, r.state, r.priority, r."rank", r.lane, r.created,
        r.payload, r.attempt, r.failures, r.lost, r.token, r.node_id, r.pid, r.started, r.ended, r.exit_code, r.signal,
        r.error, r.cancel, r.tzdata, r.parent_id, r.root, r.result, j.definition
    FROM tokimori_runs r LEFT JOIN tokimori_jobs j ON j.incarnation = r.incarnation
    WHERE r.state = 'running' AND r.node_id = _node AND r.claim_id = _claim ORDER BY r."rank", r.id;
END $$;

-- Give each child of these runs, which have ended, its run, in the order in which the children were added; a paused or
-- parked child gets a skip. The children's gates are locked. Arrivals are taken in one order, too: taking one is what
-- lets each of two parents that end at a time know of the other.
CREATE FUNCTION tokimori_bear(_ended uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _child record;
    _arrived text[];
    _digest text;
BEGIN
    FOR _child IN
        SELECT c.*, c.ended + c.place AS due FROM (
            SELECT h.id AS parent, h.job_id, h.nominal, h.ended, coalesce(h.result, h.payload) AS payload,
                coalesce(h.root, CASE WHEN h.origin LIKE 's:%' THEN h.origin ELSE h.id::text END) AS root,
                e.joins, j.id, j.incarnation, j.state, j.lane,
                coalesce((j.definition::jsonb ->> 'priority')::integer, 0) AS priority,
                row_number() OVER (PARTITION BY h.id ORDER BY j.created, j.id) - 1 AS place
            FROM tokimori_history h
            JOIN tokimori_edges e ON e.parent = h.job_id
            JOIN tokimori_jobs j ON j.id = e.child
            WHERE h.id = ANY (_ended) AND CASE e."on" WHEN 'success' THEN h.state = 'succeeded'
                WHEN 'failure' THEN h.state = 'failed' ELSE h.state <> 'skipped' END) c
        ORDER BY c.incarnation, c.root, c.parent
    LOOP
        IF _child.joins > 0 THEN
            INSERT INTO tokimori_arrivals AS a (incarnation, root, parents)
            VALUES (_child.incarnation, _child.root, ARRAY[_child.job_id])
            ON CONFLICT (incarnation, root) DO UPDATE
            SET parents = array_remove(a.parents, _child.job_id) || excluded.parents
            RETURNING parents INTO _arrived;
            CONTINUE WHEN cardinality(_arrived) < _child.joins;
            DELETE FROM tokimori_arrivals WHERE incarnation = _child.incarnation AND root = _child.root;
        END IF;
        IF _child.state IN ('paused', 'parked') THEN
            INSERT INTO tokimori_skips AS s (incarnation, first, last, count, reason)
            VALUES (_child.incarnation, _child.nominal, _child.nominal, 1, _child.state)
            ON CONFLICT (incarnation, first) DO UPDATE
            SET last = excluded.last, count = s.count + 1, reason = excluded.reason;
            CONTINUE;
        END IF;
        _digest := md5(_child.parent || '/' || _child.incarnation);
        INSERT INTO tokimori_runs (
            id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, parent_id,
            root)
        SELECT (lpad(to_hex(_child.due / 1000), 12, '0') || '7' || substr(_digest, 1, 3) || '8'
                || substr(_digest, 4, 15))::uuid,
            _child.id, _child.incarnation, o.origin, _child.nominal, _child.due, 'ready', _child.priority,
            _child.due - _child.priority * 60000000, _child.lane, _child.ended, _child.payload, _child.parent,
            _child.root
        FROM (SELECT 'c:' || CASE WHEN _child.joins > 0 THEN _child.root ELSE _child.parent::text END AS origin) o
        WHERE NOT EXISTS (
            SELECT FROM tokimori_history h
            WHERE h.incarnation = _child.incarnation AND h.origin = o.origin AND h.origin NOT LIKE 's:%')
        ON CONFLICT (incarnation, origin) DO NOTHING;
    END LOOP;
END $$;

-- Stop claimable jobs of which a run among the applied ones failed, with its error. Their gates are locked.
CREATE FUNCTION tokimori_park(_jobs bigint[], _applied uuid[], _by text) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    WITH parked AS (
        UPDATE tokimori_jobs j SET state = 'parked', reason = h.error, "by" = _by, next_due = NULL, lane = NULL
        FROM (SELECT DISTINCT ON (incarnation) incarnation, error FROM tokimori_history
            WHERE id = ANY (_applied) AND incarnation = ANY (_jobs) AND state = 'failed' ORDER BY incarnation, id) h
        WHERE j.incarnation = h.incarnation AND j.state IN ('enabled', 'finished')
        RETURNING j.incarnation
    )
    UPDATE tokimori_runs SET lane = NULL WHERE incarnation IN (SELECT incarnation FROM parked);
END $$;

-- Keep a run that has not started from starting; whether it was one.
CREATE FUNCTION tokimori_hold_run(_id uuid, _reason text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _incarnation bigint;
    _state text;
BEGIN
    SELECT incarnation INTO _incarnation FROM tokimori_runs WHERE id = _id;
    PERFORM FROM tokimori_jobs WHERE incarnation = _incarnation FOR NO KEY UPDATE;
    SELECT state INTO _state FROM tokimori_runs WHERE id = _id AND state IN ('waiting', 'ready', 'blocked') FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE tokimori_runs SET state = 'held', error = _reason WHERE id = _id;
    IF _state = 'ready' THEN
        PERFORM tokimori_wake(ARRAY[_incarnation]);
    END IF;
    RETURN true;
END $$;

-- Write the changes that still hold: which were written now, and which had been written before. Ids are distinct and
-- ascend. `_attempts` and `_out_…` belong to some of the changes; jobs in `_parks` stop if a run of theirs fails.
CREATE FUNCTION tokimori_settle(
    _by uuid, _ids uuid[], _incarnations bigint[], _owners uuid[], _tokens bigint[], _states text[], _dues bigint[],
    _ranks bigint[], _failures integer[], _losts integer[], _ended bigint[], _started bigint[], _pids integer[],
    _exit_codes integer[], _signals integer[], _errors text[], _results text[], _parks bigint[],
    _going_on bigint[], _attempts jsonb,
    _out_ids uuid[], _out_attempts integer[], _out_sizes bigint[], _out_heads bytea[], _out_tails bytea[],
    _deleted text, _parked_by text, OUT applied uuid[], OUT already uuid[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _living uuid[];  -- other owners that live: their runs are theirs
    _jobs bigint[];  -- jobs that exist, of runs that go on
    _gone_on uuid[] := '{}';
    _families boolean;
BEGIN
    applied := '{}';
    already := '{}';
    PERFORM FROM tokimori_nodes WHERE id = _by AND state = 'alive' FOR KEY SHARE;
    IF FOUND THEN
        _living := ARRAY(SELECT id FROM tokimori_nodes
            WHERE id IN (SELECT DISTINCT o FROM unnest(_owners) o WHERE o <> _by) AND state = 'alive');
        IF cardinality(_parks) > 0 THEN
            PERFORM FROM tokimori_jobs WHERE incarnation = ANY (_parks) ORDER BY incarnation FOR UPDATE;
        END IF;
        _families := EXISTS (SELECT FROM tokimori_edges);
        IF _families THEN
            PERFORM FROM tokimori_jobs WHERE id IN (
                SELECT e.child FROM tokimori_edges e
                WHERE e.parent IN (SELECT job_id FROM tokimori_runs WHERE id = ANY (_ids)))
            ORDER BY incarnation FOR KEY SHARE;
        END IF;
        PERFORM FROM tokimori_jobs
        WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_incarnations) i) AND max_running > 0
        ORDER BY incarnation FOR NO KEY UPDATE;
        _jobs := ARRAY(SELECT incarnation FROM tokimori_jobs
            WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_going_on) i) ORDER BY incarnation FOR KEY SHARE);
        WITH gone AS (
            DELETE FROM tokimori_runs r
            USING unnest(_ids, _incarnations, _owners, _tokens, _states, _dues, _ranks, _failures, _losts, _ended,
                    _started, _pids, _exit_codes, _signals, _errors, _results)
                AS c (id, incarnation, owner, token, state, due, "rank", failures, lost, ended, started, pid, exit_code,
                    signal, error, result)
            WHERE r.id = c.id AND r.state IS NOT DISTINCT FROM 'running' AND r.node_id IS NOT DISTINCT FROM c.owner
                AND r.token = c.token
                AND c.owner <> ALL (_living)
                AND (c.state IN ('succeeded', 'failed', 'cancelled', 'skipped') OR r.cancel IS NOT NULL
                    OR c.incarnation <> ALL (_jobs))
            RETURNING r.id, r.job_id, r.incarnation, r.origin, r.nominal, r.priority, r.lane, r.created, r.payload,
                r.attempt, r.token, r.node_id, r.cancel, r.tzdata, r.parent_id, r.root, c.result, c.state, c.due,
                c."rank", c.failures, c.lost, c.ended,
                coalesce(c.started, r.started) AS started, coalesce(c.pid, r.pid) AS pid, c.exit_code, c.signal, c.error
        ), kept AS (
            INSERT INTO tokimori_history (
                id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, attempt,
                failures, lost, token, node_id, pid, started, ended, exit_code, signal, error, cancel, settled_by,
                settled_token, tzdata, parent_id, root, result)
            SELECT
                id, job_id, incarnation, origin, nominal, due,
                CASE WHEN state = 'succeeded' THEN state
                    WHEN cancel IS NOT NULL OR state NOT IN ('failed', 'skipped') THEN 'cancelled'
                    ELSE state END,
                priority, "rank", lane, created, payload, attempt, failures, lost, token, node_id, pid, started, ended,
                exit_code, signal,
                CASE WHEN state IN ('succeeded', 'cancelled') THEN error
                    WHEN cancel IS NOT NULL THEN cancel
                    WHEN state NOT IN ('failed', 'skipped') THEN _deleted
                    ELSE error END,
                cancel, _by, token, tzdata, parent_id, root, CASE WHEN state = 'succeeded' THEN result END
            FROM gone RETURNING id
        )
        SELECT coalesce(array_agg(id), '{}') INTO applied FROM kept;
        IF _families THEN
            PERFORM tokimori_bear(applied);
        END IF;
        IF cardinality(_parks) > 0 THEN
            PERFORM tokimori_park(_parks, applied, _parked_by);
        END IF;
        IF cardinality(_going_on) > 0 THEN
            WITH moved AS (
                UPDATE tokimori_runs r
                SET state = c.state, due = c.due, "rank" = c."rank", failures = c.failures, lost = c.lost,
                    started = coalesce(c.started, r.started), pid = coalesce(c.pid, r.pid), exit_code = c.exit_code,
                    signal = c.signal, error = c.error, settled_by = _by, settled_token = c.token
                FROM unnest(_ids, _incarnations, _owners, _tokens, _states, _dues, _ranks, _failures, _losts, _started,
                        _pids, _exit_codes, _signals, _errors)
                    AS c (id, incarnation, owner, token, state, due, "rank", failures, lost, started, pid, exit_code,
                        signal, error)
                WHERE r.id = c.id AND r.state IS NOT DISTINCT FROM 'running' AND r.node_id IS NOT DISTINCT FROM c.owner
                AND r.token = c.token
                    AND c.owner <> ALL (_living) AND c.incarnation = ANY (_jobs) AND r.cancel IS NULL
                    AND c.state NOT IN ('succeeded', 'failed', 'cancelled', 'skipped')
                RETURNING r.id
            )
            SELECT coalesce(array_agg(id), '{}') INTO _gone_on FROM moved;
            applied := applied || _gone_on;
        END IF;
        IF _attempts IS NOT NULL THEN
            INSERT INTO tokimori_attempts (
                run_id, number, token, node_id, outcome, pid, started, ended, exit_code, signal, error)
            SELECT a.* FROM jsonb_to_recordset(_attempts) AS a (
                run_id uuid, number integer, token bigint, node_id uuid, outcome text, pid integer, started bigint,
                ended bigint, exit_code integer, signal integer, error text)
            WHERE a.run_id = ANY (applied)
            ON CONFLICT (run_id, number) DO UPDATE SET token = excluded.token, node_id = excluded.node_id,
                outcome = excluded.outcome, pid = excluded.pid, started = excluded.started, ended = excluded.ended,
                exit_code = excluded.exit_code, signal = excluded.signal, error = excluded.error;
        END IF;
        IF cardinality(_out_ids) > 0 THEN
            INSERT INTO tokimori_outputs (run_id, attempt, size, head, tail, settled)
            SELECT o.id, o.attempt, o.size, o.head, o.tail, true
            FROM unnest(_out_ids, _out_attempts, _out_sizes, _out_heads, _out_tails)
                AS o (id, attempt, size, head, tail)
            WHERE o.id = ANY (applied)
            ON CONFLICT (run_id, attempt) DO UPDATE
            SET size = excluded.size, head = excluded.head, tail = excluded.tail, settled = true;
        END IF;
        PERFORM tokimori_wake(CASE WHEN cardinality(applied) = cardinality(_ids) THEN _incarnations ELSE ARRAY(
            SELECT c.incarnation FROM unnest(_ids, _incarnations) AS c (id, incarnation) WHERE c.id = ANY (applied)
        ) END);
    END IF;
    IF cardinality(applied) < cardinality(_ids) THEN
        already := ARRAY(
            SELECT c.id FROM unnest(_ids, _tokens) AS c (id, token)
            LEFT JOIN tokimori_runs r ON r.id = c.id LEFT JOIN tokimori_history h ON h.id = c.id
            WHERE c.id <> ALL (applied) AND (
                (r.settled_by = _by AND r.settled_token = c.token)
                OR (h.settled_by = _by AND h.settled_token = c.token)));
    END IF;
END $$;
