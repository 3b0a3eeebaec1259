-- Claimable jobs of which a run among the applied ones failed are stopped, with its error; gates and semaphores
-- are locked. The semaphores that are to serve their lines after it.
CREATE OR REPLACE FUNCTION tokimori_park(_jobs bigint[], _applied uuid[], _by text) RETURNS text[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _parked bigint[];
    _lined text[];
BEGIN
    WITH parked AS (
        UPDATE tokimori_jobs j SET state = 'parked', reason = h.error, "by" = _by, next_due = NULL, lane = NULL
        FROM (SELECT DISTINCT ON (incarnation) incarnation, error FROM tokimori_history
            WHERE id = ANY (_applied) AND incarnation = ANY (_jobs) AND state = 'failed' ORDER BY incarnation, id) h
        WHERE j.incarnation = h.incarnation AND j.state IN ('enabled', 'finished')
        RETURNING j.incarnation
    )
    SELECT array_agg(incarnation) INTO _parked FROM parked;
    PERFORM tokimori_begin_move(i, NULL, NULL, 0) FROM unnest(_parked) i;
    UPDATE tokimori_moves m SET woken = j.max_running FROM tokimori_jobs j -- the settle wakes whose place is free
    WHERE m.incarnation = j.incarnation AND j.incarnation = ANY (_parked);
    _lined := tokimori_lined(_parked);
    BEGIN
        PERFORM tokimori_move_runs(i, false) FROM unnest(_parked) i;
    EXCEPTION WHEN query_canceled OR OTHERS THEN NULL;  -- beats try it again
    END;
    RETURN _lined;
END $$;
