-- When so many units of a rate fit, behind `_before` that others are to take first: at most a period ahead.
CREATE OR REPLACE FUNCTION tokimori_opens(_name text, _rate text, _weight bigint, _before bigint, _now bigint)
RETURNS bigint LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    _taken record := tokimori_window(_name, _rate, _now);
    _wanted bigint := _weight + _before;
    _fits bigint := _now;
BEGIN
    IF _wanted > _taken.units THEN
        _fits := _now + _taken.period;
    ELSIF _taken.used + _wanted > _taken.units THEN
        _fits := _taken.period + (
            SELECT t.moment FROM tokimori_taken t
            WHERE t.semaphore = split_part(_name, '@', 1) AND t.moment > _now - _taken.period
                AND t.total >= _taken.total + _wanted - _taken.units
            ORDER BY t.moment LIMIT 1);
    END IF;
    RETURN least(greatest(_fits, _taken.spaced, _now + _before * _taken.every), _now + _taken.period);
END $$;
