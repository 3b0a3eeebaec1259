-- How many units of a semaphore nobody holds; below zero where its limit was lowered. NULL: there is no such semaphore.
CREATE OR REPLACE FUNCTION tokimori_unused(_name text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT "limit" - coalesce((SELECT sum(weight) FROM tokimori_permits WHERE semaphore = _name AND NOT waiting), 0)
        FROM tokimori_semaphores WHERE name = _name);
END $$;
