-- Old runs of a job become counts; how many. Runs that somebody else has locked are left alone.
CREATE OR REPLACE FUNCTION tokimori_prune_runs(
    _job_id text, _first_id uuid, _before bigint, _keyed_before bigint, _keep integer, _limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _kept uuid;
    _ids uuid[];
BEGIN
    IF _keep > 0 THEN
        SELECT id INTO _kept FROM tokimori_history WHERE job_id = _job_id ORDER BY id DESC LIMIT 1 OFFSET _keep - 1;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
    END IF;
    _ids := ARRAY(
        SELECT id FROM tokimori_history WHERE job_id = _job_id AND id < least(_first_id, _kept)
            AND ended < _before AND (origin LIKE 's:%' OR ended < _keyed_before)
        ORDER BY id LIMIT _limit FOR UPDATE SKIP LOCKED);
    DELETE FROM tokimori_attempts WHERE run_id = ANY (_ids);
    DELETE FROM tokimori_outputs WHERE run_id = ANY (_ids);
    WITH gone AS (DELETE FROM tokimori_history WHERE id = ANY (_ids) RETURNING incarnation, ended, state)
    INSERT INTO tokimori_counts AS c (job_id, incarnation, day, outcome, count)
    SELECT _job_id, incarnation, ended - ended % 86400000000, state, count(*) FROM gone
    GROUP BY 2, 3, 4 ORDER BY 2, 3, 4
    ON CONFLICT (job_id, incarnation, day, outcome) DO UPDATE SET count = c.count + excluded.count;
    RETURN cardinality(_ids);
END $$;
