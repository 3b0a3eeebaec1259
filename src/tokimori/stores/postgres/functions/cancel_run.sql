-- A run that has not started is ended, one that runs is ordered to end.
CREATE OR REPLACE FUNCTION tokimori_cancel_run(_id uuid, _reason text, _now bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM tokimori_jobs WHERE incarnation = (SELECT incarnation FROM tokimori_runs WHERE id = _id)
    FOR NO KEY UPDATE;
    PERFORM tokimori_cancel(ARRAY[_id], _reason, _now);
END $$;
