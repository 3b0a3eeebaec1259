-- A run that has not started is ended, one that runs is ordered to end. With `_unbegun` it ends as skipped, and only if
-- it does not run and has had so many attempts.
CREATE OR REPLACE FUNCTION tokimori_cancel_run(_id uuid, _reason text, _now bigint, _unbegun integer)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM tokimori_jobs WHERE incarnation = (SELECT incarnation FROM tokimori_runs WHERE id = _id)
    FOR NO KEY UPDATE;
    IF _unbegun IS NULL THEN
        PERFORM tokimori_cancel(ARRAY[_id], _reason, _now);
    ELSE
        PERFORM tokimori_cancel(ARRAY[_id], _reason, _now, 'skipped', _unbegun);
    END IF;
END $$;
