-- What a clock that has been set back has as still to come was taken now. The semaphore is locked.
CREATE OR REPLACE FUNCTION tokimori_cut(_name text, _now bigint) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _ledger text := split_part(_name, '@', 1);
BEGIN
    IF EXISTS (SELECT FROM tokimori_taken WHERE semaphore = _ledger AND moment > _now) THEN
        INSERT INTO tokimori_taken AS t (semaphore, moment, units, total)
        SELECT semaphore, _now, sum(units), max(total) FROM tokimori_taken
        WHERE semaphore = _ledger AND moment >= _now GROUP BY semaphore
        ON CONFLICT (semaphore, moment) DO UPDATE SET units = excluded.units, total = excluded.total;
        DELETE FROM tokimori_taken WHERE semaphore = _ledger AND moment > _now;
    END IF;
END $$;
