-- A run that has not started, and is due at the moment that the caller read, is held, or waits until another moment; what
-- it had of turns in lines goes to the next.
CREATE OR REPLACE FUNCTION tokimori_leave_line(
    _id uuid, _was bigint, _state text, _error text, _nominal bigint, _due bigint) RETURNS void LANGUAGE plpgsql AS $$
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
    WHERE id = _id AND state IN ('waiting', 'ready', 'blocked') AND due = coalesce(_was, due) FOR UPDATE;
    IF FOUND THEN
        UPDATE tokimori_runs SET state = _state, error = coalesce(_error, error), nominal = coalesce(_nominal, nominal),
            "rank" = "rank" + coalesce(_due - due, 0), due = coalesce(_due, due), blocked_on = NULL WHERE id = _id;
        PERFORM tokimori_pass_on(_run.incarnation, _run.state, _run.concurrency_key, _run.blocked_on, _names);
    END IF;
END $$;
