-- A semaphore is forgotten, its newest token kept; false where units are held, or something waits.
CREATE OR REPLACE FUNCTION tokimori_delete_semaphore(_name text) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _token bigint;
BEGIN
    PERFORM FROM tokimori_semaphores WHERE name = _name FOR UPDATE;
    IF EXISTS (SELECT FROM tokimori_permits WHERE semaphore = _name AND waiting)
        OR EXISTS (SELECT FROM tokimori_permits WHERE semaphore = _name AND NOT waiting)
        OR EXISTS (SELECT FROM tokimori_runs
            WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane IS NOT NULL) THEN
        RETURN false;
    END IF;
    DELETE FROM tokimori_semaphores WHERE name = _name RETURNING granted INTO _token;
    DELETE FROM tokimori_taken WHERE semaphore = _name;
    INSERT INTO tokimori_tokens AS t (one, newest) SELECT true, _token WHERE _token IS NOT NULL
    ON CONFLICT (one) DO UPDATE SET newest = greatest(t.newest, _token);
    RETURN true;
END $$;
