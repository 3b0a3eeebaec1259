-- So many units of a rate are taken now; what counts no more is forgotten. The semaphore is locked.
CREATE OR REPLACE FUNCTION tokimori_take(_name text, _rate text, _units bigint) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _ledger text := split_part(_name, '@', 1);
    _now bigint := tokimori_now();
BEGIN
    INSERT INTO tokimori_taken AS t (semaphore, moment, units, total) SELECT _ledger, _now, _units, _units + coalesce(
        (SELECT total FROM tokimori_taken WHERE semaphore = _ledger ORDER BY moment DESC LIMIT 1), 0)
    ON CONFLICT (semaphore, moment) DO UPDATE SET units = t.units + excluded.units, total = excluded.total;
    DELETE FROM tokimori_taken WHERE semaphore = _ledger AND moment <= _now - split_part(_rate, '/', 2)::bigint;
END $$;
