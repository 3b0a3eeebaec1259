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
