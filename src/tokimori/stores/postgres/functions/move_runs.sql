-- Some more runs of a job follow its change, 500 at a time: they get its lane, and those in lines of keys and semaphores
-- are ready again: their claim finds them the line of today. Of a deleted job they end. Whether all have; then whatever
-- the job wanted serves its line. Until then no claim takes a run that has another lane than its job.
CREATE OR REPLACE FUNCTION tokimori_move_runs(_incarnation bigint, _serves boolean DEFAULT true) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _job tokimori_jobs;
    _move tokimori_moves;
    _ids uuid[];
    _last text;
    _woken integer := 0;
BEGIN
    SELECT * INTO _job FROM tokimori_jobs WHERE incarnation = _incarnation FOR NO KEY UPDATE;
    SELECT * INTO _move FROM tokimori_moves WHERE incarnation = _incarnation FOR UPDATE;
    IF NOT FOUND THEN
        RETURN true;
    END IF;
    PERFORM tokimori_lock_semaphores(tokimori_lined(ARRAY[_incarnation]));
    SELECT array_agg(id), max(origin) INTO _ids, _last FROM (
        SELECT id, origin, sum(octet_length(payload)) OVER (
            ORDER BY origin ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS large
        FROM (SELECT id, origin, payload FROM tokimori_runs WHERE incarnation = _incarnation AND origin > _move.origin
            ORDER BY incarnation, origin LIMIT 500) few) r
    WHERE _move.reason IS NULL OR coalesce(large, 0) < 4000000;  -- the history gets payloads written anew
    IF _move.reason IS NOT NULL THEN
        PERFORM tokimori_cancel(
            ARRAY(SELECT id FROM tokimori_runs WHERE id = ANY (_ids) AND state <> 'running'), _move.reason, _move.since);
    ELSE
        PERFORM FROM tokimori_runs WHERE id = ANY (_ids) ORDER BY id FOR UPDATE;
        UPDATE tokimori_runs SET
            lane = CASE WHEN lane IS NULL THEN _job.lane ELSE coalesce(_move.forced_lane, _job.lane) END,
            state = CASE WHEN blocked_on IS NULL THEN state ELSE 'ready' END, blocked_on = NULL
        WHERE id = ANY (_ids) AND (blocked_on IS NOT NULL
            OR lane IS DISTINCT FROM CASE WHEN lane IS NULL THEN _job.lane ELSE coalesce(_move.forced_lane, _job.lane) END);
        UPDATE tokimori_runs SET
            priority = _job.priority, "rank" = "rank" + (_move.priority_was - _job.priority)::bigint * 60000000
        WHERE id = ANY (_ids) AND state <> 'running' AND priority = _move.priority_was;
        UPDATE tokimori_runs SET state = 'ready' WHERE id = ANY (ARRAY(
            SELECT id FROM tokimori_runs WHERE incarnation = _incarnation AND state = 'blocked' AND blocked_on IS NULL
            ORDER BY "rank", id
            LIMIT CASE WHEN _job.max_running = 0 THEN 500
                ELSE greatest(0, least(500, _job.max_running - _move.woken)) END));
        GET DIAGNOSTICS _woken = ROW_COUNT;
    END IF;
    IF _woken = 500 OR EXISTS (SELECT FROM tokimori_runs WHERE incarnation = _incarnation AND origin > _last) THEN
        UPDATE tokimori_moves SET origin = coalesce(_last, origin), woken = woken + _woken
        WHERE incarnation = _incarnation;
        RETURN false;
    END IF;
    DELETE FROM tokimori_moves WHERE incarnation = _incarnation;
    IF _serves THEN
        PERFORM tokimori_free(ARRAY(SELECT DISTINCT n COLLATE "C" FROM unnest(_move.names) n ORDER BY 1));
    END IF;
    RETURN true;
END $$;
