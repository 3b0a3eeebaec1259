-- A few semaphores are served for which a run waits that could have its units, while nothing of its lane is ready. What
-- is locked is not waited for. The lines are few, however many runs stand in them.
CREATE OR REPLACE FUNCTION tokimori_sweep(_most integer) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _stuck text[];
    _name text;
BEGIN
    _stuck := ARRAY(
        WITH RECURSIVE walk (line) AS (
            SELECT min(blocked_on) FROM tokimori_runs
            WHERE state = 'blocked' AND lane IS NOT NULL AND blocked_on >= 'semaphore:'
            UNION ALL
            SELECT (SELECT min(blocked_on) FROM tokimori_runs
                WHERE state = 'blocked' AND lane IS NOT NULL AND blocked_on > walk.line)
            FROM walk WHERE walk.line IS NOT NULL)
        SELECT s.name
        FROM (SELECT substr(line, 11) AS name FROM walk WHERE line IS NOT NULL LIMIT 1000) s
        CROSS JOIN LATERAL tokimori_heads(s.name) h LEFT JOIN tokimori_jobs j ON j.incarnation = h.incarnation
        WHERE coalesce(tokimori_weight(j.semaphores, s.name), 1) <= tokimori_open_units(s.name)
            AND NOT EXISTS (SELECT FROM tokimori_runs WHERE state = 'ready' AND lane = h.lane)
            AND NOT EXISTS (
                SELECT FROM tokimori_permits WHERE semaphore = s.name AND waiting AND "rank" <= h."rank")
        GROUP BY s.name ORDER BY random() LIMIT _most);  -- those whose runs are refused stand before no others
    IF cardinality(_stuck) > 0 THEN
        FOR _name IN SELECT name FROM tokimori_semaphores WHERE name = ANY (_stuck) FOR NO KEY UPDATE SKIP LOCKED LOOP
            PERFORM tokimori_wake_line(_name, ARRAY(
                SELECT h.lane FROM tokimori_heads(_name) h
                WHERE EXISTS (SELECT FROM tokimori_runs r WHERE r.state = 'ready' AND r.lane = h.lane)));
        END LOOP;
    END IF;
END $$;
