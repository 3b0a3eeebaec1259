-- Those of these runs of a job that have expired become counts. Runs that somebody else has locked are left alone.
CREATE OR REPLACE FUNCTION tokimori_prune_runs(_job_id text, _ids uuid[], _before bigint, _keyed_before bigint)
RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    _ids := ARRAY(
        SELECT id FROM tokimori_history WHERE id = ANY (_ids)
            AND ended < CASE WHEN origin LIKE 's:%' THEN _before ELSE _keyed_before END
        ORDER BY id FOR UPDATE SKIP LOCKED);
    DELETE FROM tokimori_attempts WHERE run_id = ANY (_ids);
    DELETE FROM tokimori_outputs WHERE run_id = ANY (_ids);
    WITH gone AS (DELETE FROM tokimori_history WHERE id = ANY (_ids) RETURNING incarnation, ended, state)
    INSERT INTO tokimori_counts AS c (job_id, incarnation, day, outcome, count)
    SELECT _job_id, incarnation, ended - ended % 86400000000, state, count(*) FROM gone
    GROUP BY 2, 3, 4 ORDER BY 2, 3, 4
    ON CONFLICT (job_id, incarnation, day, outcome) DO UPDATE SET count = c.count + excluded.count;
END $$;
