-- The first of each lane in the line of a semaphore. The index is walked from one lane to the next.
CREATE OR REPLACE FUNCTION tokimori_heads(_name text) RETURNS TABLE (lane text, "rank" bigint, incarnation bigint)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE walk (lane, "rank", incarnation) AS (
        (SELECT lane, "rank", incarnation FROM tokimori_runs
        WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane IS NOT NULL
        ORDER BY lane, "rank", id LIMIT 1)
        UNION ALL
        SELECT n.lane, n."rank", n.incarnation FROM walk CROSS JOIN LATERAL (
            SELECT lane, "rank", incarnation FROM tokimori_runs
            WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane > walk.lane
            ORDER BY lane, "rank", id LIMIT 1) n)
    SELECT lane, "rank", incarnation FROM walk
$$;
