-- Runs that have not started are ended, others ordered to end. What they had of turns in lines goes to the next: a
-- ready run may have been next in any of its lines, and one that stands in the line of a semaphore may have kept others
-- from passing. Children that wait for whichever end get their runs. The caller has locked the gates.
-- With `_unbegun` those alone are ended that do not run and have had so many attempts.
CREATE OR REPLACE FUNCTION tokimori_cancel(
    _ids uuid[], _reason text, _now bigint, _ends text DEFAULT 'cancelled', _unbegun integer DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _passed bigint[];
    _keys text[];
    _names text[];
    _ended uuid[];
BEGIN
    PERFORM tokimori_share_children(_ids, NULL);
    PERFORM tokimori_lock_semaphores(tokimori_lined(
        ARRAY(SELECT DISTINCT incarnation FROM tokimori_runs WHERE id = ANY (_ids))));
    PERFORM FROM tokimori_runs WHERE id = ANY (_ids) ORDER BY id FOR UPDATE;
    UPDATE tokimori_runs SET cancel = coalesce(cancel, _reason) WHERE id = ANY (_ids) AND state = 'running'
        AND _unbegun IS NULL;
    WITH gone AS (
        DELETE FROM tokimori_runs WHERE id = ANY (_ids) AND state <> 'running' AND attempt = coalesce(_unbegun, attempt)
        RETURNING *
    ), kept AS (
        INSERT INTO tokimori_history ({RUN - state, ended, error, blocked_on}, {SETTLED}, state, ended, error)
        SELECT {RUN - state, ended, error, blocked_on}, {SETTLED}, _ends, _now, _reason
        FROM gone
    )
    SELECT array_agg(incarnation) FILTER (WHERE state = 'ready'),
        array_agg(concurrency_key) FILTER (WHERE state = 'ready'),
        array_agg(substr(blocked_on, 11)) FILTER (WHERE blocked_on LIKE 'semaphore:%'), array_agg(id)
    INTO _passed, _keys, _names, _ended FROM gone;
    PERFORM tokimori_bear(_ended, NULL);
    IF _passed IS NOT NULL THEN
        PERFORM tokimori_wake(_passed);
        PERFORM tokimori_wake_keys(_passed, _keys);
    END IF;
    PERFORM tokimori_free(ARRAY(
        SELECT unnest(tokimori_lined(_passed)) UNION SELECT unnest(_names) ORDER BY 1));  -- what a job wanted that is gone its move knows
END $$;
