-- How many units of a semaphore may be taken now: those that nobody holds, and that its rate lets go. NULL: there is no
-- such semaphore.
CREATE OR REPLACE FUNCTION tokimori_open_units(_name text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE
    _unused bigint;
    _rate text;
    _now bigint;
    _taken record;
BEGIN
    SELECT "limit" - coalesce((SELECT sum(weight) FROM tokimori_permits WHERE semaphore = _name AND NOT waiting), 0), rate
    INTO _unused, _rate FROM tokimori_semaphores WHERE name = _name;
    IF _rate IS NULL THEN
        RETURN _unused;
    END IF;
    _now := tokimori_now();
    _taken := tokimori_window(_name, _rate, _now);
    RETURN least(_unused, CASE WHEN _taken.spaced > _now THEN 0 ELSE greatest(_taken.units - _taken.used, 0) END);
END $$;
