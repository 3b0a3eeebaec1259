-- These semaphores are locked, in order, whoever has to be waited for.
CREATE OR REPLACE FUNCTION tokimori_lock_semaphores(_names text[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(_names) > 0 THEN
        PERFORM FROM tokimori_semaphores WHERE name = ANY (_names) ORDER BY name FOR NO KEY UPDATE;
    END IF;
END $$;
