-- Requests that are forced, or that share a key with others.
-- Nodes since schema 6 work on this one.

-- Which run took over what a request asked for, so that whoever lost the reply gets the same answer: for an hour.
CREATE TABLE tokimori_requests (id uuid PRIMARY KEY, run_id uuid NOT NULL, asked bigint NOT NULL);
CREATE INDEX tokimori_requests_asked ON tokimori_requests (asked);

-- Keep a requested run: 'made'. Or which other one answers: one of the same origin, or that took over what this request
-- asked for before ('known'); the newest of its key (whose origins begin with `_prefix`), if it was made after `_since`
-- ('known') or has never started and `_replaces` ('replaced'). Or why there is none: 'unknown', 'full', or the state of
-- the job. `_lane` is that of a forced run where the job has none. The gate is held alone, so that of two requests of one
-- key the second one sees what the first one did. Ids are hexadecimal: 'g' comes after all of them.
CREATE FUNCTION tokimori_ask_run(
    _id uuid, _job_id text, _incarnation bigint, _origin text, _nominal bigint, _due bigint, _state text,
    _priority integer, _rank bigint, _created bigint, _payload text, _parent uuid, _root text,
    _lane text, _prefix text, _since bigint, _replaces boolean, _forget bigint, _now bigint,
    OUT answer text, OUT run uuid)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _job record;
    _newest uuid;
    _was text;
BEGIN
    SELECT state, coalesce(lane, _lane) AS lane INTO _job FROM tokimori_jobs
    WHERE incarnation = _incarnation AND id = _job_id FOR UPDATE;
    IF NOT FOUND THEN
        answer := 'unknown';
        RETURN;
    END IF;
    SELECT id INTO run FROM (
        SELECT id FROM tokimori_runs WHERE incarnation = _incarnation AND origin = _origin
        UNION ALL SELECT id FROM tokimori_history
        WHERE incarnation = _incarnation AND origin = _origin AND origin NOT LIKE 's:%'
        UNION ALL SELECT run_id FROM tokimori_requests WHERE id = _id) k LIMIT 1;
    IF FOUND THEN
        answer := 'known';
        RETURN;
    END IF;
    IF _job.lane IS NULL THEN
        answer := _job.state;
        RETURN;
    END IF;
    IF _since IS NOT NULL OR _replaces THEN
        SELECT id, CASE WHEN created > _since THEN id END INTO _newest, run FROM (
            (SELECT id, origin, created FROM tokimori_runs
            WHERE incarnation = _incarnation AND origin >= _prefix AND origin < _prefix || 'g'
            ORDER BY origin DESC LIMIT 1)
            UNION ALL
            (SELECT id, origin, created FROM tokimori_history
            WHERE incarnation = _incarnation AND origin >= _prefix AND origin < _prefix || 'g' AND origin NOT LIKE 's:%'
            ORDER BY origin DESC LIMIT 1)) n
        ORDER BY origin DESC LIMIT 1;
        IF run IS NOT NULL THEN
            answer := 'known';
            RETURN;
        END IF;
    END IF;
    IF _replaces THEN
        SELECT id, state INTO run, _was FROM tokimori_runs
        WHERE id = _newest AND attempt = 0 AND state IN ('waiting', 'ready', 'blocked') FOR UPDATE;
        IF FOUND THEN
            UPDATE tokimori_runs SET state = 'waiting', nominal = _nominal, due = _due, priority = _priority,
                "rank" = _rank, payload = _payload, lane = _job.lane
            WHERE id = run;
            DELETE FROM tokimori_requests WHERE asked < _forget;
            INSERT INTO tokimori_requests (id, run_id, asked) VALUES (_id, run, _now);
            IF _was = 'ready' THEN
                PERFORM tokimori_wake(ARRAY[_incarnation]);
            END IF;
            answer := 'replaced';
            RETURN;
        END IF;
    END IF;
    IF cardinality(tokimori_full(ARRAY[_incarnation])) > 0 THEN
        answer := 'full';
        RETURN;
    END IF;
    INSERT INTO tokimori_runs (
        id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, parent_id, root)
    VALUES (
        _id, _job_id, _incarnation, _origin, _nominal, _due, _state, _priority, _rank, _job.lane, _created, _payload,
        _parent, _root);
    answer := 'made';
    run := _id;
END $$;

-- As tokimori_replace_job_13; the forced runs of a job that stays stopped are those that have a lane, and get this one.
CREATE FUNCTION tokimori_replace_job_14(
    _incarnation bigint, _old_version integer, _old_state text, _old_fired_through bigint,
    _version integer, _definition text, _state text, _reason text, _by text, _updated bigint, _anchor bigint,
    _fired_through bigint, _next_due bigint, _max_running integer, _lane text, _most_active integer,
    _runs_remaining integer, _tzdata text, _days_off text, _skips jsonb,
    _job text, _edges jsonb, _family bigint, _forced_lane text
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _answer text;
    _forced uuid[];
BEGIN
    IF _forced_lane IS NOT NULL THEN
        PERFORM FROM tokimori_jobs WHERE incarnation = _incarnation FOR UPDATE;
        _forced := ARRAY(SELECT id FROM tokimori_runs WHERE incarnation = _incarnation AND lane IS NOT NULL);
    END IF;
    _answer := tokimori_replace_job_13(
        _incarnation, _old_version, _old_state, _old_fired_through, _version, _definition, _state, _reason, _by,
        _updated, _anchor, _fired_through, _next_due, _max_running, _lane, _most_active, _runs_remaining, _tzdata,
        _days_off, _skips, _job, _edges, _family);
    IF _answer = 'replaced' AND cardinality(_forced) > 0 THEN
        UPDATE tokimori_runs SET lane = _forced_lane WHERE id = ANY (_forced);
    END IF;
    RETURN _answer;
END $$;

-- As before, but the runs' own lanes alone say whether they may be claimed: who pauses a job takes them, under its gate.
CREATE OR REPLACE FUNCTION tokimori_claim(_claim uuid, _node uuid, _lanes text[], _limit integer, _most integer)
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
            WHERE j.max_running = 0 FOR KEY SHARE OF j SKIP LOCKED);
        _limited := '{}';
        IF cardinality(_free) < cardinality(_jobs) THEN
            _limited := ARRAY(
                SELECT j.incarnation FROM unnest(_jobs) AS c (incarnation) JOIN tokimori_jobs j USING (incarnation)
                WHERE j.max_running > 0 FOR NO KEY UPDATE OF j SKIP LOCKED);
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
