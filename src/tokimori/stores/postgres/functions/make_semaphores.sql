-- Semaphores are made that nobody has asked for yet; false: somebody else is making them. One claim at a time does: no
-- two wait for each other. The name of a job's rate tells it.
CREATE OR REPLACE FUNCTION tokimori_make_semaphores(_names text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _made integer := 0;
BEGIN
    IF pg_try_advisory_xact_lock(hashtext('tokimori_semaphores')) THEN
        INSERT INTO tokimori_semaphores (name, "limit", rate)
        SELECT n, CASE WHEN n LIKE '%:%' THEN 1000000 ELSE 1 END, nullif(split_part(n, '@', 2), '')
        FROM unnest(_names) n ORDER BY 1
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS _made = ROW_COUNT;
    END IF;
    RETURN _made = cardinality(_names);
END $$;
