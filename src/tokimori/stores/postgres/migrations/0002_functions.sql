-- Methods that lock before they look: one call is one statement and one transaction, so that no transaction waits for a
-- client that thinks, or froze. Each statement of a function sees what was committed before it began, so that what is
-- read after a lock is up to date. Lock order: node, gate (the job's row), run, each ascending by key.
--   A node's row: FOR KEY SHARE by what must find it alive, FOR UPDATE by what ends it; its beats disturb neither.
--   A gate: FOR KEY SHARE by what adds or claims runs, FOR NO KEY UPDATE by what counts or moves its line, FOR UPDATE by
--   pause, edit and delete.
-- IS NOT DISTINCT FROM, where = would do, keeps the planner from finding each of many runs by an index of all running
-- ones, of which it believes there are none.

-- Make the next in line ready, as many as places were freed (one item for each); a paused job's are claimed after its
-- resume. The gates are locked: by then no edit can be under way that would change a limit.
CREATE FUNCTION tokimori_wake(_freed bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _gates bigint[];
BEGIN
    _gates := ARRAY(
        SELECT incarnation FROM tokimori_jobs
        WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_freed) i) AND max_running > 0
        ORDER BY incarnation FOR NO KEY UPDATE);
    IF cardinality(_gates) > 0 THEN
        UPDATE tokimori_runs SET state = 'ready' WHERE id = ANY (ARRAY(
            SELECT head.id
            FROM (SELECT i AS incarnation, count(*) AS places FROM unnest(_freed) i WHERE i = ANY (_gates) GROUP BY i) f
            JOIN tokimori_jobs j ON j.incarnation = f.incarnation
            CROSS JOIN LATERAL (
                SELECT r.id FROM tokimori_runs r WHERE r.incarnation = j.incarnation AND r.state = 'blocked'
                ORDER BY r."rank", r.id
                LIMIT greatest(0, least(f.places, j.max_running - (
                    SELECT count(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'running')))
            ) head));
    END IF;
END $$;

-- The runs of a job whose limit was taken away are all woken.
CREATE FUNCTION tokimori_wake_all(_incarnation bigint) RETURNS void
LANGUAGE sql AS $$
    UPDATE tokimori_runs SET state = 'ready' WHERE incarnation = _incarnation AND state = 'blocked'
$$;

-- End the runs that have not started, order the others to end; those that were ready pass their turn on.
-- The caller has locked the gates.
CREATE FUNCTION tokimori_cancel(_ids uuid[], _reason text, _now bigint) RETURNS void
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
            settled_token)
        SELECT
            id, job_id, incarnation, origin, nominal, due, 'cancelled', priority, "rank", lane, created, payload,
            attempt, failures, lost, token, node_id, pid, started, _now, exit_code, signal, _reason, cancel, settled_by,
            settled_token
        FROM gone
    )
    SELECT array_agg(incarnation) INTO _passed FROM gone WHERE state = 'ready';
    IF _passed IS NOT NULL THEN
        PERFORM tokimori_wake(_passed);
    END IF;
END $$;

-- Put a job in place of another, if it still is what the caller read; whether it was.
CREATE FUNCTION tokimori_replace_job(
    _incarnation bigint, _old_version integer, _old_state text, _old_fired_through bigint,
    _version integer, _definition text, _state text, _reason text, _by text, _updated bigint, _anchor bigint,
    _fired_through bigint, _next_due bigint, _max_running integer, _lane text, _skips jsonb
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
        max_running = _max_running, lane = _lane
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

-- Forget a job; whether there was one.
CREATE FUNCTION tokimori_delete_job(_id text, _reason text, _now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _incarnation bigint;
BEGIN
    SELECT incarnation INTO _incarnation FROM tokimori_jobs WHERE id = _id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    DELETE FROM tokimori_jobs WHERE incarnation = _incarnation;
    PERFORM tokimori_cancel(
        ARRAY(SELECT id FROM tokimori_runs WHERE incarnation = _incarnation AND state <> 'running'), _reason, _now);
    RETURN true;
END $$;

-- Rows of the ledger; one that begins where a known one begins replaces it.
CREATE FUNCTION tokimori_keep_skips(_skips jsonb) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO tokimori_skips (incarnation, first, last, count, reason)
    SELECT incarnation, first, last, count, reason
    FROM jsonb_to_recordset(_skips) AS s (incarnation bigint, first bigint, last bigint, count bigint, reason text)
    ON CONFLICT (incarnation, first) DO UPDATE
    SET last = excluded.last, count = excluded.count, reason = excluded.reason
$$;

-- Keep requested runs whose jobs exist and are not paused; the lanes by which they were added, others are missing.
CREATE FUNCTION tokimori_add_runs(
    _ids uuid[], _job_ids text[], _incarnations bigint[], _origins text[], _nominals bigint[], _dues bigint[],
    _states text[], _priorities integer[], _ranks bigint[], _created bigint[], _payloads text[]
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
            id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload)
        SELECT r.id, j.id, j.incarnation, r.origin, r.nominal, r.due, r.state, r.priority, r."rank", j.lane, r.created,
            r.payload
        FROM unnest(_ids, _job_ids, _incarnations, _origins, _nominals, _dues, _states, _priorities, _ranks, _created,
                _payloads)
            AS r (id, job_id, incarnation, origin, nominal, due, state, priority, "rank", created, payload)
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

-- End a run that has not started, order one that runs to end.
CREATE FUNCTION tokimori_cancel_run(_id uuid, _reason text, _now bigint) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM tokimori_jobs WHERE incarnation = (SELECT incarnation FROM tokimori_runs WHERE id = _id)
    FOR NO KEY UPDATE;
    PERFORM tokimori_cancel(ARRAY[_id], _reason, _now);
END $$;

-- Write the plans whose job still is what they were made from; their incarnations. `_replaces` cancel earlier runs.
CREATE FUNCTION tokimori_apply(
    _incarnations bigint[], _versions integer[], _fired_from bigint[], _fired_through bigint[], _next_due bigint[],
    _states text[], _replaces boolean[],
    _run_ids uuid[], _run_job_ids text[], _run_incarnations bigint[], _run_origins text[], _run_nominals bigint[],
    _run_dues bigint[], _run_priorities integer[], _run_ranks bigint[], _run_lanes text[],
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
        SET fired_through = greatest(j.fired_through, p.fired_through), next_due = p.next_due, state = p.state
        FROM unnest(_incarnations, _versions, _fired_from, _fired_through, _next_due, _states)
            AS p (incarnation, version, fired_from, fired_through, next_due, state)
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
        id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created)
    SELECT r.id, r.job_id, r.incarnation, r.origin, r.nominal, r.due,
        CASE WHEN r.due <= _now THEN 'ready' ELSE 'waiting' END, r.priority, r."rank", r.lane, _now
    FROM unnest(_run_ids, _run_job_ids, _run_incarnations, _run_origins, _run_nominals, _run_dues, _run_priorities,
            _run_ranks, _run_lanes)
        AS r (id, job_id, incarnation, origin, nominal, due, priority, "rank", lane)
    WHERE cardinality(_accepted) = cardinality(_incarnations) OR r.incarnation = ANY (_accepted)
    ON CONFLICT DO NOTHING;
    IF _skips IS NOT NULL THEN
        PERFORM tokimori_keep_skips((
            SELECT jsonb_agg(s) FROM jsonb_array_elements(_skips) s
            WHERE (s ->> 'incarnation')::bigint = ANY (_accepted)));
    END IF;
    RETURN _accepted;
END $$;

-- Give the node ready runs by (rank, id), each if its job has room; one that has none joins the line. Nothing is waited
-- for: what is locked stays ready. Asked again, the same runs.
CREATE FUNCTION tokimori_claim(_claim uuid, _node uuid, _lanes text[], _limit integer, _most integer)
RETURNS TABLE (
    id uuid, job_id text, incarnation bigint, origin text, nominal bigint, due bigint, state text, priority integer,
    "rank" bigint, lane text, created bigint, payload text, attempt integer, failures integer, lost integer,
    token bigint, node_id uuid, pid integer, started bigint, ended bigint, exit_code integer, signal integer,
    error text, cancel text, definition text)
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
        r.error, r.cancel, j.definition
    FROM tokimori_runs r LEFT JOIN tokimori_jobs j ON j.incarnation = r.incarnation
    WHERE r.state = 'running' AND r.node_id = _node AND r.claim_id = _claim ORDER BY r."rank", r.id;
END $$;

-- Write the changes that still hold: which were written now, and which had been written before. Ids are distinct and
-- ascend. `_attempts` and `_out_…` belong to some of the changes.
CREATE FUNCTION tokimori_settle(
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
                r.attempt, r.token, r.node_id, r.cancel, c.state, c.due, c."rank", c.failures, c.lost, c.ended,
                coalesce(c.started, r.started) AS started, coalesce(c.pid, r.pid) AS pid, c.exit_code, c.signal, c.error
        ), kept AS (
            INSERT INTO tokimori_history (
                id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, attempt,
                failures, lost, token, node_id, pid, started, ended, exit_code, signal, error, cancel, settled_by,
                settled_token)
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
                cancel, _by, token
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

-- Declare a node dead, if it has not beaten since and its observer lives; whether it is dead now.
CREATE FUNCTION tokimori_bury(_dead uuid, _beat bigint, _observer uuid, _now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tokimori_nodes WHERE id IN (_dead, _observer) ORDER BY id FOR UPDATE;
    UPDATE tokimori_nodes SET state = 'dead', "left" = _now
    WHERE id = _dead AND beat = _beat AND state = 'alive'
        AND EXISTS (SELECT FROM tokimori_nodes WHERE id = _observer AND state = 'alive');
    RETURN EXISTS (SELECT FROM tokimori_nodes WHERE id = _dead AND state = 'dead');
END $$;

-- The node goes, unless it owns runs; whether it is gone.
CREATE FUNCTION tokimori_leave(_node uuid, _now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tokimori_nodes WHERE id = _node FOR UPDATE;
    UPDATE tokimori_nodes SET state = 'left', "left" = _now
    WHERE id = _node AND state = 'alive'
        AND NOT EXISTS (SELECT FROM tokimori_runs WHERE state = 'running' AND node_id = _node);
    RETURN NOT EXISTS (SELECT FROM tokimori_nodes WHERE id = _node AND state = 'alive');
END $$;

-- What there is to do: the next moment at which anything is due, and the lanes with ready runs. The index is walked
-- from one lane to the next: as many steps as there are lanes, not runs.
CREATE FUNCTION tokimori_survey(OUT next_due bigint, OUT lanes text[])
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    next_due := least(
        (SELECT min(next_due) FROM tokimori_jobs WHERE state = 'enabled' AND next_due IS NOT NULL),
        (SELECT min(due) FROM tokimori_runs WHERE state = 'waiting'));
    lanes := ARRAY(
        WITH RECURSIVE walk (lane) AS (
            SELECT min(lane) FROM tokimori_runs WHERE state = 'ready' AND lane IS NOT NULL
            UNION ALL
            SELECT (SELECT min(lane) FROM tokimori_runs WHERE state = 'ready' AND lane > walk.lane)
            FROM walk WHERE walk.lane IS NOT NULL)
        SELECT lane FROM walk WHERE lane IS NOT NULL ORDER BY lane);
END $$;

-- Nodes that are dead, and still own runs.
CREATE FUNCTION tokimori_dead_owners() RETURNS uuid[]
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE walk (id) AS (
            (SELECT node_id FROM tokimori_runs WHERE state = 'running' ORDER BY node_id LIMIT 1)
            UNION ALL
            SELECT (SELECT node_id FROM tokimori_runs WHERE state = 'running' AND node_id > walk.id
                ORDER BY node_id LIMIT 1)
            FROM walk WHERE walk.id IS NOT NULL)
        SELECT walk.id FROM walk JOIN tokimori_nodes n ON n.id = walk.id AND n.state = 'dead');
END $$;

-- A beat: raise the counter, note which processes began, and tell what concerns the node. No row: it is dead.
CREATE FUNCTION tokimori_tick(_node uuid, _ids uuid[], _tokens bigint[], _pids integer[], _started bigint[])
RETURNS TABLE (
    now bigint, owned uuid[], tokens bigint[], cancels text[], peers uuid[], beats bigint[], orphans boolean,
    next_due bigint, lanes text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE tokimori_nodes SET beat = beat + 1 WHERE id = _node AND state = 'alive';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF cardinality(_ids) > 0 THEN
        UPDATE tokimori_runs r SET pid = s.pid, started = s.started
        FROM unnest(_ids, _tokens, _pids, _started) AS s (id, token, pid, started)
        WHERE r.id = s.id AND r.token = s.token AND r.node_id IS NOT DISTINCT FROM _node
            AND r.state IS NOT DISTINCT FROM 'running';
    END IF;
    RETURN QUERY
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, o.ids, o.tokens, o.cancels, p.ids, p.beats,
        cardinality(tokimori_dead_owners()) > 0, s.next_due, s.lanes
    FROM (SELECT array_agg(id) AS ids, array_agg(token) AS tokens, array_agg(cancel) AS cancels FROM tokimori_runs
            WHERE state = 'running' AND node_id = _node) o,
        (SELECT array_agg(id) AS ids, array_agg(beat) AS beats FROM tokimori_nodes
            WHERE state = 'alive' AND id <> _node) p,
        tokimori_survey() s;
END $$;
