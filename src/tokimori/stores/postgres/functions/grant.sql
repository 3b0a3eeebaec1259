-- The programs that are next in the line of a semaphore, which is locked, get units, as long as no blocked run is
-- before them; whether any got some. Runs of paused queues keep no program waiting: nothing of them is claimed until a
-- resume.
CREATE OR REPLACE FUNCTION tokimori_grant(_name text) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _left bigint;
    _taken bigint := 0;
    _rate text := (SELECT rate FROM tokimori_semaphores WHERE name = _name);
    _first bigint;
    _token bigint;
    _program record;
BEGIN
    IF NOT EXISTS (SELECT FROM tokimori_permits WHERE semaphore = _name AND waiting) THEN
        RETURN false;
    END IF;
    _left := tokimori_open_units(_name);
    _first := (
        SELECT min(h."rank") FROM tokimori_heads(_name) h
        WHERE NOT EXISTS (SELECT FROM tokimori_pauses WHERE queue IN ('*', split_part(h.lane, '|', 1))));
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
        _taken := _taken + _program.weight;
        EXIT WHEN _rate LIKE '%/smooth';
    END LOOP;
    IF _rate IS NOT NULL AND _taken > 0 THEN
        PERFORM tokimori_take(_name, _rate, _taken);
    END IF;
    RETURN _token IS NOT NULL;
END $$;
