-- The next in the line of the limit become ready, as many as places were freed (one item for each); those of a paused
-- job are claimed after its resume. The gates are locked: by then no edit can be under way that would change a limit.
CREATE OR REPLACE FUNCTION tokimori_wake(_freed bigint[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _gates bigint[];
BEGIN
    _gates := ARRAY(
        SELECT incarnation FROM tokimori_jobs
        WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_freed) i) AND max_running > 0
        ORDER BY incarnation FOR NO KEY UPDATE);
    IF cardinality(_gates) > 0 THEN
        PERFORM tokimori_ready(ARRAY(
            SELECT head.id
            FROM (SELECT i AS incarnation, count(*) AS places FROM unnest(_freed) i WHERE i = ANY (_gates) GROUP BY i) f
            JOIN tokimori_jobs j ON j.incarnation = f.incarnation
            CROSS JOIN LATERAL (
                SELECT r.id FROM tokimori_runs r
                WHERE r.incarnation = j.incarnation AND r.state = 'blocked' AND r.blocked_on IS NULL
                ORDER BY r."rank", r.id
                LIMIT greatest(0, least(f.places, j.max_running - (
                    SELECT count(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'running')))
            ) head));
    END IF;
END $$;
