-- The heads of each lane in the line of a semaphore, which is locked, become ready: as many as fit together, and are
-- before every program that waits. Nothing in `_busy` lanes.
CREATE OR REPLACE FUNCTION tokimori_wake_line(_name text, _busy text[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _left bigint := tokimori_unused(_name);
    _before bigint;
BEGIN
    IF EXISTS (SELECT FROM tokimori_semaphores WHERE name = _name AND rate IS NOT NULL) THEN
        IF EXISTS (SELECT FROM tokimori_heads(_name))
            OR EXISTS (SELECT FROM tokimori_semaphores WHERE name = _name AND wakes IS NOT NULL) THEN
            PERFORM tokimori_wake_in_turn(_name);
        END IF;
    ELSIF _left > 0 THEN
        SELECT "rank" INTO _before FROM tokimori_permits WHERE semaphore = _name AND waiting
        ORDER BY "rank", id LIMIT 1;
        PERFORM tokimori_ready(ARRAY(
            SELECT w.id FROM tokimori_heads(_name) h CROSS JOIN LATERAL (
                SELECT r.id,
                    sum(coalesce(tokimori_weight(j.semaphores, _name), 1)) OVER (ORDER BY r."rank", r.id) AS units
                FROM (
                    SELECT id, incarnation, "rank" FROM tokimori_runs
                    WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane = h.lane
                        AND "rank" < coalesce(_before, 9223372036854775807)
                    ORDER BY "rank", id LIMIT least(_left, 1000)) r  -- beats serve those behind them
                LEFT JOIN tokimori_jobs j ON j.incarnation = r.incarnation) w
            WHERE h.lane <> ALL (_busy) AND w.units <= _left));
    END IF;
END $$;
