-- Claimable jobs of which a run among the applied ones failed are stopped, with its error; which were. Gates and
-- semaphores are locked.
CREATE OR REPLACE FUNCTION tokimori_park(_jobs bigint[], _applied uuid[], _by text) RETURNS bigint[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _parked bigint[];
BEGIN
    WITH parked AS (
        UPDATE tokimori_jobs j SET state = 'parked', reason = h.error, "by" = _by, next_due = NULL, lane = NULL
        FROM (SELECT DISTINCT ON (incarnation) incarnation, error FROM tokimori_history
            WHERE id = ANY (_applied) AND incarnation = ANY (_jobs) AND state = 'failed' ORDER BY incarnation, id) h
        WHERE j.incarnation = h.incarnation AND j.state IN ('enabled', 'finished')
        RETURNING j.incarnation
    )
    SELECT array_agg(incarnation) INTO _parked FROM parked;
    PERFORM tokimori_begin_move(i, NULL, NULL, 0), tokimori_move_runs(i) FROM unnest(_parked) i;
    RETURN _parked;
END $$;
