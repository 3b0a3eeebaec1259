-- The jobs among these (one item for each run to be added) that would have more active runs than they may. Who counts
-- locks their gates: until the end of its transaction nobody else adds a run of theirs.
CREATE OR REPLACE FUNCTION tokimori_full(_coming bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tokimori_jobs
    WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_coming) i) AND most_active IS NOT NULL
    ORDER BY incarnation FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT j.incarnation
        FROM (SELECT i AS incarnation, count(*) AS runs FROM unnest(_coming) i GROUP BY i) c
        JOIN tokimori_jobs j ON j.incarnation = c.incarnation
        WHERE c.runs + (SELECT count(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state <> 'held'
            AND due <> 7258118400000000) > j.most_active);  -- `model.run.NEVER`: it waits for what it has spawned
END $$;
