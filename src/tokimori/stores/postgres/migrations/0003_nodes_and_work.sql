-- Claim, settle, and who may: the order of locks stands in 0002.

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
