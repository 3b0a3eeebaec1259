-- A rate and what is taken of it now: `every` is the microseconds behind each unit of a smooth one, else 0; `spaced` the
-- moment up to which nobody takes any. What was taken of a job's rate stands under the part of the name before the @.
CREATE OR REPLACE FUNCTION tokimori_window(
    _name text, _rate text, _now bigint, OUT units bigint, OUT period bigint, OUT every bigint, OUT used bigint,
    OUT spaced bigint, OUT newest bigint, OUT total bigint) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    _ledger text := split_part(_name, '@', 1);
    _last bigint;
BEGIN
    units := split_part(_rate, '/', 1);
    period := split_part(_rate, '/', 2);
    every := CASE WHEN split_part(_rate, '/', 3) = 'smooth' THEN (period + units - 1) / units ELSE 0 END;
    SELECT t.moment, t.units, t.total INTO newest, _last, total FROM tokimori_taken t WHERE t.semaphore = _ledger
    ORDER BY t.moment DESC LIMIT 1;
    used := coalesce(total, 0) - coalesce(
        (SELECT t.total FROM tokimori_taken t WHERE t.semaphore = _ledger AND t.moment <= _now - period
            ORDER BY t.moment DESC LIMIT 1),
        (SELECT t.total - t.units FROM tokimori_taken t WHERE t.semaphore = _ledger ORDER BY t.moment LIMIT 1), 0);
    spaced := coalesce(newest + _last * every, 0);
END $$;
