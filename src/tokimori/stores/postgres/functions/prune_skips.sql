-- Old skips of a job become counts; how many. The newest one stays, unless the job is deleted: an open range may still
-- grow.
CREATE OR REPLACE FUNCTION tokimori_prune_skips(
    _job_id text, _incarnation bigint, _before bigint, _deleted boolean, _limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _firsts bigint[];
BEGIN
    _firsts := ARRAY(
        SELECT first FROM tokimori_skips WHERE incarnation = _incarnation AND first < _before AND last < _before
            AND (_deleted OR first < (SELECT max(first) FROM tokimori_skips WHERE incarnation = _incarnation))
        ORDER BY first LIMIT _limit FOR UPDATE SKIP LOCKED);
    WITH gone AS (
        DELETE FROM tokimori_skips WHERE incarnation = _incarnation AND first = ANY (_firsts)
        RETURNING last, reason, count)
    INSERT INTO tokimori_counts AS c (job_id, incarnation, day, outcome, count)
    SELECT _job_id, _incarnation, last - last % 86400000000, reason, sum(count) FROM gone GROUP BY 3, 4 ORDER BY 3, 4
    ON CONFLICT (job_id, incarnation, day, outcome) DO UPDATE SET count = c.count + excluded.count;
    RETURN cardinality(_firsts);
END $$;
