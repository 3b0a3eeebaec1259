-- The semaphores that these jobs state, by name.
CREATE OR REPLACE FUNCTION tokimori_named(_jobs bigint[]) RETURNS text[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT DISTINCT (w ->> 0) COLLATE "C"
        FROM tokimori_jobs j CROSS JOIN LATERAL jsonb_array_elements(j.semaphores::jsonb) w
        WHERE j.incarnation = ANY (_jobs) AND j.semaphores IS NOT NULL ORDER BY 1);
END $$;
