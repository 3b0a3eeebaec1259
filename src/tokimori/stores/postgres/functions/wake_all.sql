-- The runs of a job whose limit was taken away are all woken.
CREATE OR REPLACE FUNCTION tokimori_wake_all(_incarnation bigint) RETURNS void
LANGUAGE sql AS $$
    UPDATE tokimori_runs SET state = 'ready'
    WHERE incarnation = _incarnation AND state = 'blocked' AND blocked_on IS NULL
$$;
