-- A run that has not started is kept from starting, and what it had of turns in lines goes to the next; whether it was
-- one.
CREATE OR REPLACE FUNCTION tokimori_hold_run(_id uuid, _reason text) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _run record;
    _names text[];
BEGIN
    SELECT incarnation INTO _run FROM tokimori_runs WHERE id = _id;
    PERFORM FROM tokimori_jobs WHERE incarnation = _run.incarnation FOR NO KEY UPDATE;
    _names := tokimori_lined(ARRAY[_run.incarnation]);
    PERFORM tokimori_lock_semaphores(_names);
    SELECT incarnation, state, concurrency_key, blocked_on INTO _run FROM tokimori_runs
    WHERE id = _id AND state IN ('waiting', 'ready', 'blocked') FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE tokimori_runs SET state = 'held', error = _reason, blocked_on = NULL WHERE id = _id;
    PERFORM tokimori_pass_on(_run.incarnation, _run.state, _run.concurrency_key, _run.blocked_on, _names);
    RETURN true;
END $$;
