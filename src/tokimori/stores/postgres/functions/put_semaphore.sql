-- A semaphore is made, or gets another limit and rate: NULL; otherwise nothing is done, and the answer is the most units that
-- something in its line wants.
CREATE OR REPLACE FUNCTION tokimori_put_semaphore(_name text, _limit integer, _rate text) RETURNS integer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _most integer;
BEGIN
    INSERT INTO tokimori_semaphores AS s (name, "limit") VALUES (_name, _limit)
    ON CONFLICT (name) DO UPDATE SET "limit" = s."limit";
    _most := greatest(
        (SELECT max(weight) FROM tokimori_permits WHERE semaphore = _name AND waiting),
        (SELECT max(tokimori_weight(j.semaphores, _name)) FROM (
                SELECT DISTINCT incarnation FROM tokimori_runs
                WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane IS NOT NULL) r
            JOIN tokimori_jobs j ON j.incarnation = r.incarnation));
    IF _most > least(_limit, split_part(_rate, '/', 1)::integer) THEN
        RETURN _most;
    END IF;
    UPDATE tokimori_semaphores SET "limit" = _limit, rate = _rate, wakes = NULL, turn = NULL, kept = false, woken = 0
    WHERE name = _name;
    PERFORM tokimori_free(ARRAY[_name]);
    RETURN NULL;
END $$;
