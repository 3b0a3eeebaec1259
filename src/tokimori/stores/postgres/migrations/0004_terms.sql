-- What became of a job's terms, and by which version of the time zone data moments were reckoned. An older node, which
-- knows none of it, leaves it as it is: it goes on with the functions whose names bear no number. Those whose arguments or
-- columns are others bear that of this migration.
-- Nodes since schema 3 work on this one.

ALTER TABLE tokimori_jobs
    ADD COLUMN runs_remaining integer,         -- NULL: no limit
    ADD COLUMN tzdata text COLLATE "C" NOT NULL DEFAULT '', -- of next_due; empty: unknown
    ADD COLUMN days_off text;                  -- JSON
ALTER TABLE tokimori_runs ADD COLUMN tzdata text;
ALTER TABLE tokimori_history ADD COLUMN tzdata text;

-- A node that starts looks for those which an older version reckoned.
CREATE INDEX tokimori_jobs_tzdata ON tokimori_jobs (tzdata, incarnation)
WHERE state = 'enabled' AND next_due IS NOT NULL;

-- As before, and the history keeps tzdata.
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
            settled_token, tzdata)
        SELECT
            id, job_id, incarnation, origin, nominal, due, 'cancelled', priority, "rank", lane, created, payload,
            attempt, failures, lost, token, node_id, pid, started, _now, exit_code, signal, _reason, cancel, settled_by,
            settled_token, tzdata
        FROM gone
    )
    SELECT array_agg(incarnation) INTO _passed FROM gone WHERE state = 'ready';
    IF _passed IS NOT NULL THEN
        PERFORM tokimori_wake(_passed);
    END IF;
END $$;

-- As before, and the history keeps tzdata.
CREATE OR REPLACE FUNCTION tokimori_settle(
    _by uuid, _ids uuid[], _incarnations bigint[], _owners uuid[], _tokens bigint[], _states text[], _dues bigint[],
    _ranks bigint[], _failures integer[], _losts integer[], _ended bigint[], _started bigint[], _pids integer[],
    _exit_codes integer[], _signals integer[], _errors text[], _going_on bigint[], _attempts jsonb,
    _out_ids uuid[], _out_attempts integer[], _out_sizes bigint[], _out_heads bytea[], _out_tails bytea[],
    _deleted text, OUT applied uuid[], OUT already uuid[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _living uuid[];  -- other owners that live: their runs are theirs
    _jobs bigint[];  -- jobs that exist, of runs that go on
    _gone_on uuid[] := '{}';
BEGIN
    applied := '{}';
    already := '{}';
    PERFORM FROM tokimori_nodes WHERE id = _by AND state = 'alive' FOR KEY SHARE;
    IF FOUND THEN
        _living := ARRAY(SELECT id FROM tokimori_nodes
            WHERE id IN (SELECT DISTINCT o FROM unnest(_owners) o WHERE o <> _by) AND state = 'alive');
        PERFORM FROM tokimori_jobs
        WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_incarnations) i) AND max_running > 0
        ORDER BY incarnation FOR NO KEY UPDATE;
        _jobs := ARRAY(SELECT incarnation FROM tokimori_jobs
            WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_going_on) i) ORDER BY incarnation FOR KEY SHARE);
        WITH gone AS (
            DELETE FROM tokimori_runs r
            USING unnest(_ids, _incarnations, _owners, _tokens, _states, _dues, _ranks, _failures, _losts, _ended,
                    _started, _pids, _exit_codes, _signals, _errors)
                AS c (id, incarnation, owner, token, state, due, "rank", failures, lost, ended, started, pid, exit_code,
                    signal, error)
            WHERE r.id = c.id AND r.state IS NOT DISTINCT FROM 'running' AND r.node_id IS NOT DISTINCT FROM c.owner
                AND r.token = c.token
                AND c.owner <> ALL (_living)
                AND (c.state IN ('succeeded', 'failed', 'cancelled', 'skipped') OR r.cancel IS NOT NULL
                    OR c.incarnation <> ALL (_jobs))
            RETURNING r.id, r.job_id, r.incarnation, r.origin, r.nominal, r.priority, r.lane, r.created, r.payload,
                r.attempt, r.token, r.node_id, r.cancel, r.tzdata, c.state, c.due, c."rank", c.failures, c.lost, c.ended,
                coalesce(c.started, r.started) AS started, coalesce(c.pid, r.pid) AS pid, c.exit_code, c.signal, c.error
        ), kept AS (
            INSERT INTO tokimori_history (
                id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, attempt,
                failures, lost, token, node_id, pid, started, ended, exit_code, signal, error, cancel, settled_by,
                settled_token, tzdata)
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
                cancel, _by, token, tzdata
            FROM gone RETURNING id
        )
        SELECT coalesce(array_agg(id), '{}') INTO applied FROM kept;
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
                (r.settled_by = _by AND r.settled_token = c.token) OR (h.settled_by = _by AND h.settled_token = c.token)));
    END IF;
END $$;

-- As tokimori_replace_job, with the columns of this migration.
CREATE FUNCTION tokimori_replace_job_4(
    _incarnation bigint, _old_version integer, _old_state text, _old_fired_through bigint,
    _version integer, _definition text, _state text, _reason text, _by text, _updated bigint, _anchor bigint,
    _fired_through bigint, _next_due bigint, _max_running integer, _lane text,
    _runs_remaining integer, _tzdata text, _days_off text, _skips jsonb
) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _live uuid[];
BEGIN
    PERFORM FROM tokimori_jobs
    WHERE incarnation = _incarnation AND version = _old_version AND state = _old_state
        AND fired_through = _old_fired_through
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
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
    RETURN true;
END $$;

-- As tokimori_add_runs, with the columns of this migration.
CREATE FUNCTION tokimori_add_runs_4(
    _ids uuid[], _job_ids text[], _incarnations bigint[], _origins text[], _nominals bigint[], _dues bigint[],
    _states text[], _priorities integer[], _ranks bigint[], _created bigint[], _payloads text[],
    _tzdata text[]
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
            tzdata)
        SELECT r.id, j.id, j.incarnation, r.origin, r.nominal, r.due, r.state, r.priority, r."rank", j.lane, r.created,
            r.payload, r.tzdata
        FROM unnest(_ids, _job_ids, _incarnations, _origins, _nominals, _dues, _states, _priorities, _ranks, _created,
                _payloads, _tzdata)
            AS r (id, job_id, incarnation, origin, nominal, due, state, priority, "rank", created, payload,
                tzdata)
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

-- As tokimori_apply, with the columns of this migration.
CREATE FUNCTION tokimori_apply_4(
    _incarnations bigint[], _versions integer[], _fired_from bigint[], _fired_through bigint[], _next_due bigint[],
    _states text[], _anchors bigint[], _runs_remaining integer[], _tzdata text[], _replaces boolean[],
    _run_ids uuid[], _run_job_ids text[], _run_incarnations bigint[], _run_origins text[], _run_nominals bigint[],
    _run_dues bigint[], _run_priorities integer[], _run_ranks bigint[], _run_lanes text[],
    _run_tzdata text[],
    _skips jsonb, _reason text, _now bigint
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _accepted bigint[];
    _replacing bigint[];
BEGIN
    WITH moved AS (
        UPDATE tokimori_jobs j
        SET fired_through = greatest(j.fired_through, p.fired_through), next_due = p.next_due, state = p.state,
            anchor = p.anchor, runs_remaining = p.runs_remaining, tzdata = p.tzdata
        FROM unnest(_incarnations, _versions, _fired_from, _fired_through, _next_due, _states, _anchors,
                _runs_remaining, _tzdata)
            AS p (incarnation, version, fired_from, fired_through, next_due, state, anchor, runs_remaining, tzdata)
        WHERE j.incarnation = p.incarnation AND j.version = p.version AND j.fired_through = p.fired_from
            AND j.state = 'enabled'
        RETURNING j.incarnation
    )
    SELECT coalesce(array_agg(incarnation), '{}') INTO _accepted FROM moved;
    IF true = ANY (_replaces) THEN
        _replacing := ARRAY(
            SELECT p.incarnation FROM unnest(_incarnations, _replaces) AS p (incarnation, replaces)
            WHERE p.replaces AND p.incarnation = ANY (_accepted));
        PERFORM tokimori_cancel(
            ARRAY(SELECT id FROM tokimori_runs
                WHERE incarnation = ANY (_replacing) AND origin LIKE 's:%' AND state <> 'held'), _reason, _now);
    END IF;
    INSERT INTO tokimori_runs (
        id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, tzdata)
    SELECT r.id, r.job_id, r.incarnation, r.origin, r.nominal, r.due,
        CASE WHEN r.due <= _now THEN 'ready' ELSE 'waiting' END, r.priority, r."rank", r.lane, _now, r.tzdata
    FROM unnest(_run_ids, _run_job_ids, _run_incarnations, _run_origins, _run_nominals, _run_dues, _run_priorities,
            _run_ranks, _run_lanes, _run_tzdata)
        AS r (id, job_id, incarnation, origin, nominal, due, priority, "rank", lane, tzdata)
    WHERE cardinality(_accepted) = cardinality(_incarnations) OR r.incarnation = ANY (_accepted)
    ON CONFLICT DO NOTHING;
    IF _skips IS NOT NULL THEN
        PERFORM tokimori_keep_skips((
            SELECT jsonb_agg(s) FROM jsonb_array_elements(_skips) s
            WHERE (s ->> 'incarnation')::bigint = ANY (_accepted)));
    END IF;
    RETURN _accepted;
END $$;

-- As tokimori_claim, with the columns of this migration.
CREATE FUNCTION tokimori_claim_4(_claim uuid, _node uuid, _lanes text[], _limit integer, _most integer)
RETURNS TABLE (
    id uuid, job_id text, incarnation bigint, origin text, nominal bigint, due bigint, state text, priority integer,
    "rank" bigint, lane text, created bigint, payload text, attempt integer, failures integer, lost integer,
    token bigint, node_id uuid, pid integer, started bigint, ended bigint, exit_code integer, signal integer,
    error text, cancel text, tzdata text, definition text)
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
        r.error, r.cancel, r.tzdata, j.definition
    FROM tokimori_runs r LEFT JOIN tokimori_jobs j ON j.incarnation = r.incarnation
    WHERE r.state = 'running' AND r.node_id = _node AND r.claim_id = _claim ORDER BY r."rank", r.id;
END $$;
