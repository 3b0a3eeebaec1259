-- The units of semaphores and of rates that these runs want, by their states. `_paced` are rates of queues.
CREATE OR REPLACE FUNCTION tokimori_units_of(_ids uuid[], _jobs bigint[], _paced text[])
RETURNS TABLE (name text, state text, weight bigint) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH counted AS (
        SELECT incarnation, lane, state, count(*) AS number FROM tokimori_runs
        WHERE id = ANY (_ids) AND incarnation = ANY (_jobs) GROUP BY 1, 2, 3)
    SELECT w ->> 0, c.state, c.number * (w ->> 1)::bigint
    FROM counted c JOIN tokimori_jobs j USING (incarnation)
    CROSS JOIN LATERAL jsonb_array_elements(j.semaphores::jsonb) w WHERE j.semaphores IS NOT NULL
    UNION ALL
    SELECT p, c.state, c.number FROM counted c JOIN unnest(_paced) p ON p = 'queue:' || split_part(c.lane, '|', 1);
END $$;
