-- Semaphores are made that nobody has asked for yet; false: somebody else is making them. One claim at a time does: no
-- two wait for each other.
CREATE OR REPLACE FUNCTION tokimori_make_semaphores(_names text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    _made integer := 0;
BEGIN
    IF pg_try_advisory_xact_lock(hashtext('tokimori_semaphores')) THEN
        INSERT INTO tokimori_semaphores (name, "limit") SELECT n, 1 FROM unnest(_names) n ORDER BY 1
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS _made = ROW_COUNT;
    END IF;
    RETURN _made = cardinality(_names);
END $$;
