-- Nodes since schema 6 work on this one.

-- At most one row: the newest token of programs' grants of all semaphores that were deleted. Those of a semaphore that is
-- made anew begin above it, so that who held one of that name before has none that is greater.
CREATE TABLE tokimori_tokens (one boolean PRIMARY KEY, newest bigint NOT NULL);

-- As before, but for the tokens.
CREATE OR REPLACE FUNCTION tokimori_grant(_name text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _left bigint := tokimori_unused(_name);
    _first bigint := (
        SELECT min(h."rank") FROM tokimori_heads(_name) h
        WHERE NOT EXISTS (SELECT FROM tokimori_pauses WHERE queue IN ('*', split_part(h.lane, '|', 1))));
    _token bigint;
    _program record;
BEGIN
    FOR _program IN
        SELECT id, weight FROM tokimori_permits
        WHERE semaphore = _name AND waiting AND "rank" <= coalesce(_first, 9223372036854775807)
        ORDER BY "rank", id LIMIT greatest(_left, 0)
    LOOP
        EXIT WHEN _program.weight > _left;
        UPDATE tokimori_semaphores SET granted = greatest(granted, (SELECT max(newest) FROM tokimori_tokens)) + 1
        WHERE name = _name RETURNING granted INTO _token;
        UPDATE tokimori_permits SET waiting = false, token = _token WHERE id = _program.id;
        _left := _left - _program.weight;
    END LOOP;
    RETURN _token IS NOT NULL;
END $$;

-- As before, and the newest token of the semaphore is kept.
CREATE OR REPLACE FUNCTION tokimori_delete_semaphore(_name text) RETURNS boolean
LANGUAGE plpgsql AS $$
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
    INSERT INTO tokimori_tokens AS t (one, newest) SELECT true, _token WHERE _token IS NOT NULL
    ON CONFLICT (one) DO UPDATE SET newest = greatest(t.newest, _token);
    RETURN true;
END $$;
