-- A beat: it raises the counter, looks at the lines, notes which processes began, and tells what concerns the node. No
-- row: the node is dead.
CREATE OR REPLACE FUNCTION tokimori_tick(_node uuid, _ids uuid[], _tokens bigint[], _pids integer[], _started bigint[])
RETURNS TABLE (
    now bigint, owned uuid[], tokens bigint[], cancels text[], peers uuid[], beats bigint[], orphans boolean,
    next_due bigint, lanes text[]) LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE tokimori_nodes SET beat = beat + 1 WHERE id = _node AND state = 'alive';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM tokimori_runs
        WHERE state = 'blocked' AND lane IS NOT NULL AND blocked_on >= 'semaphore:') THEN
        PERFORM tokimori_sweep(4);
    END IF;
    -- One beat at a time moves runs: all others would stand behind it. Of any job: one may be locked, or fail.
    IF EXISTS (SELECT FROM tokimori_moves) AND pg_try_advisory_xact_lock(hashtext('tokimori_moves'), 0) THEN
        BEGIN
            PERFORM tokimori_move_runs(m.incarnation) FROM (
                SELECT incarnation FROM tokimori_moves WHERE incarnation >= coalesce((
                    SELECT min(incarnation) FROM tokimori_moves
                    WHERE incarnation >= (SELECT (random() * 9223372036854775807)::bigint)), 0)
                ORDER BY incarnation LIMIT 1) m
            WHERE m.incarnation NOT IN (SELECT incarnation FROM tokimori_jobs WHERE incarnation = m.incarnation) OR EXISTS (
                SELECT FROM tokimori_jobs WHERE incarnation = m.incarnation FOR NO KEY UPDATE SKIP LOCKED);
        EXCEPTION WHEN query_canceled OR OTHERS THEN NULL;  -- a refused one is tried again, and refuses no beat
        END;
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
