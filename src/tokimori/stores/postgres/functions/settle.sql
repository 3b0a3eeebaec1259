-- The changes that still hold are written: which were written now (`applied`), and which had been written before
-- (`already`). Ids are distinct and ascend. `_attempts` and `_out_…` belong to some of the changes. The permits of runs
-- go back with them; `served`: others may have waited for them. `written` is reckoned once: a run would pay half a µs.
-- One incarnation, owner or state may stand for all. Where all succeed, due, rank, failures and lost stay as they are.
CREATE OR REPLACE FUNCTION tokimori_settle(
    _by uuid, {_CHANGE arrays}, _parks bigint[], _going_on bigint[], _childless uuid[], _steps jsonb, _attempts jsonb,
    _out_ids uuid[], _out_attempts integer[], _out_sizes bigint[], _out_heads bytea[], _out_tails bytea[],
    _out_times bytea[], _deleted text, _parked_by text,
    OUT applied uuid[], OUT already uuid[], OUT served boolean) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _living uuid[];  -- other owners that live: their runs are theirs
    _jobs bigint[];  -- jobs that exist, of runs that go on
    _gone_on uuid[] := '{}';
    _families boolean;
    _holding boolean;  -- somebody holds permits, somewhere
    _has_keys boolean; -- some run has a key
    _keyed bigint[] := '{}';  -- jobs of those here that have one
    _names text[];     -- semaphores that may be free after this
    _freed text[];
BEGIN
    applied := '{}';
    already := '{}';
    served := false;
    _incarnation := tokimori_each(_incarnation, cardinality(_id));
    _node_id := tokimori_each(_node_id, cardinality(_id));
    _state := tokimori_each(_state, cardinality(_id));
    PERFORM FROM tokimori_nodes WHERE id = _by AND state = 'alive' FOR KEY SHARE;
    IF FOUND THEN
        _living := ARRAY(SELECT id FROM tokimori_nodes
            WHERE id IN (SELECT DISTINCT o FROM unnest(_node_id) o WHERE o <> _by) AND state = 'alive');
        IF cardinality(_parks) > 0 THEN
            PERFORM FROM tokimori_jobs WHERE incarnation = ANY (_parks) ORDER BY incarnation FOR UPDATE;
        END IF;
        SELECT EXISTS (SELECT FROM tokimori_edges), EXISTS (SELECT FROM tokimori_permits),
            coalesce((SELECT true FROM tokimori_runs WHERE concurrency_key IS NOT NULL
                ORDER BY incarnation, concurrency_key LIMIT 1), false)
        INTO _families, _holding, _has_keys;
        _families := _families OR _steps IS NOT NULL;
        IF _families THEN
            PERFORM tokimori_share_children(_id, _steps);
        END IF;
        IF _has_keys THEN  -- coalesce keeps the planner from walking all runs that have one
            _keyed := ARRAY(
                SELECT DISTINCT incarnation FROM tokimori_runs
                WHERE id = ANY (_id) AND coalesce(concurrency_key, '') <> '');
        END IF;
        PERFORM FROM tokimori_jobs
        WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_incarnation) i)
            AND (max_running > 0 OR incarnation = ANY (_keyed))
        ORDER BY incarnation FOR NO KEY UPDATE;
        _jobs := ARRAY(SELECT incarnation FROM tokimori_jobs
            WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_going_on) i) ORDER BY incarnation FOR KEY SHARE);
        IF _holding OR cardinality(_parks) > 0 THEN
            _names := ARRAY(
                SELECT semaphore COLLATE "C" FROM tokimori_permits WHERE run_id = ANY (_id)
                UNION SELECT unnest(tokimori_lined(_parks)) ORDER BY 1);
            PERFORM tokimori_lock_semaphores(_names);
        END IF;
        IF cardinality(_going_on) > 0 THEN  -- first: what a cancel has marked while this waited ends below
            WITH moved AS (
                UPDATE tokimori_runs r
                SET ({MOVED}, exit_code, signal, error, cpu, memory)
                    = ROW ({c.MOVED}, c.exit_code, c.signal, c.error, c.cpu, c.memory),
                    state = c.state, started = coalesce(c.started, r.started), pid = coalesce(c.pid, r.pid),
                    details = coalesce(c.details, r.details), settled_by = _by, settled_token = c.token
                FROM unnest({_CHANGE}) AS c ({CHANGE})
                WHERE r.id = c.id AND CASE r.state WHEN 'waiting' THEN c.state = 'waiting' AND r.token < c.token
                    WHEN 'running' THEN r.node_id IS NOT DISTINCT FROM c.node_id AND r.token = c.token ELSE false END
                    AND c.node_id <> ALL (_living) AND c.incarnation = ANY (_jobs) AND r.cancel IS NULL
                    AND c.state NOT IN ('succeeded', 'failed', 'cancelled', 'skipped')
                RETURNING r.id
            )
            SELECT coalesce(array_agg(id), '{}') INTO _gone_on FROM moved;
        END IF;
        WITH gone AS (
            DELETE FROM tokimori_runs r
            USING unnest({_CHANGE}) AS c ({CHANGE})
            -- A run that waits for those which it has spawned is settled under the token of a later claim.
            WHERE r.id = c.id AND CASE r.state WHEN 'waiting' THEN r.token < c.token WHEN 'running'
                THEN r.node_id IS NOT DISTINCT FROM c.node_id AND r.token = c.token ELSE false END
                AND c.node_id <> ALL (_living) AND (c.incarnation <> ALL (_jobs)
                    OR c.state IN ('succeeded', 'failed', 'cancelled', 'skipped') OR r.cancel IS NOT NULL)
            RETURNING
                {r.RUN - state, due, rank, failures, lost, pid, started, ended, exit_code, signal, error, result, details, cpu, memory},
                c.state, coalesce(c.due, r.due) AS due, coalesce(c."rank", r."rank") AS "rank",
                coalesce(c.failures, r.failures) AS failures, coalesce(c.lost, r.lost) AS lost,
                coalesce(c.pid, r.pid) AS pid, coalesce(c.started, r.started) AS started, c.ended, c.exit_code,
                c.signal, c.error, c.cpu, c.memory, c.result, coalesce(c.details, r.details) AS details
        ), kept AS (
            INSERT INTO tokimori_history ({RUN - state, error, result}, {SETTLED}, written, state, error, result)
            SELECT
                {RUN - state, error, result}, _by, token, (SELECT extract(epoch FROM clock_timestamp()) * 1000000),
                CASE WHEN state = 'succeeded' THEN state
                    WHEN cancel IS NOT NULL OR state NOT IN ('failed', 'skipped') THEN 'cancelled'
                    ELSE state END,
                CASE WHEN state IN ('succeeded', 'cancelled') THEN error
                    WHEN cancel IS NOT NULL THEN cancel
                    WHEN state NOT IN ('failed', 'skipped') THEN _deleted
                    ELSE error END,
                CASE WHEN state = 'succeeded' THEN result END
            FROM gone RETURNING id
        )
        SELECT coalesce(array_agg(id), '{}') INTO applied FROM kept;
        IF _families THEN
            PERFORM tokimori_bear(ARRAY(SELECT id FROM unnest(applied || _gone_on) id WHERE id <> ALL (_childless)), _steps);
        END IF;
        applied := applied || _gone_on;
        IF _attempts IS NOT NULL THEN
            INSERT INTO tokimori_attempts ({ATTEMPT})
            SELECT {a.ATTEMPT} FROM jsonb_populate_recordset(NULL::tokimori_attempts, _attempts) a
            WHERE a.run_id = ANY (applied)
            ON CONFLICT (run_id, number) DO UPDATE
            SET ({ATTEMPT - run_id, number}) = ROW ({excluded.ATTEMPT - run_id, number});
        END IF;
        IF cardinality(_out_ids) > 0 THEN
            INSERT INTO tokimori_outputs (run_id, attempt, size, head, tail, times, settled)
            SELECT o.id, o.attempt, o.size, o.head, o.tail, o.times, true
            FROM unnest(_out_ids, _out_attempts, _out_sizes, _out_heads, _out_tails, _out_times)
                AS o (id, attempt, size, head, tail, times)
            WHERE o.id = ANY (applied)
            ON CONFLICT (run_id, attempt) DO UPDATE
            SET size = excluded.size, head = excluded.head, tail = excluded.tail,
                times = excluded.times, settled = true;
        END IF;
        PERFORM tokimori_wake(CASE WHEN cardinality(applied) = cardinality(_id) THEN _incarnation ELSE ARRAY(
            SELECT c.incarnation FROM unnest(_id, _incarnation) AS c (id, incarnation) WHERE c.id = ANY (applied)
        ) END);
        IF cardinality(_keyed) > 0 THEN
            PERFORM tokimori_wake_keys(array_agg(incarnation), array_agg(concurrency_key)) FROM (
                SELECT incarnation, concurrency_key FROM tokimori_history WHERE id = ANY (applied)
                UNION SELECT incarnation, concurrency_key FROM tokimori_runs WHERE id = ANY (_gone_on)) k;
        END IF;
        IF cardinality(_names) > 0 THEN
            WITH back AS (DELETE FROM tokimori_permits WHERE run_id = ANY (applied) RETURNING semaphore)
            SELECT array_agg(semaphore) INTO _freed FROM back;
            served := _freed IS NOT NULL;
        END IF;
        IF cardinality(_parks) > 0 THEN
            _freed := _freed || tokimori_park(_parks, applied, _parked_by);
        END IF;
        IF _freed IS NOT NULL THEN
            PERFORM tokimori_free(ARRAY(SELECT DISTINCT n COLLATE "C" FROM unnest(_freed) n ORDER BY 1));
        END IF;
    END IF;
    IF cardinality(applied) < cardinality(_id) THEN
        already := ARRAY(
            SELECT c.id FROM unnest(_id, _token) AS c (id, token)
            LEFT JOIN tokimori_runs r ON r.id = c.id LEFT JOIN tokimori_history h ON h.id = c.id
            WHERE c.id <> ALL (applied) AND (
                (r.settled_by = _by AND r.settled_token = c.token)
                OR (h.settled_by = _by AND h.settled_token = c.token)));
    END IF;
END $$;
