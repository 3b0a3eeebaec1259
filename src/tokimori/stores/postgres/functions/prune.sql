-- Old runs and skips of many jobs become counts, until so many rows are gone; how many. A deleted job of which nothing
-- is left is forgotten.
CREATE OR REPLACE FUNCTION tokimori_prune(_expiries jsonb, _limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _e record;
    _left integer := _limit;
    _exists boolean;
BEGIN
    FOR _e IN SELECT * FROM jsonb_to_recordset(_expiries) AS e (
        job_id text, incarnation bigint, first_id uuid, before bigint, keyed_before bigint, keep_runs integer,
        deleted boolean)
    LOOP
        _exists := NOT _e.deleted OR EXISTS (SELECT FROM tokimori_jobs WHERE id = _e.job_id);
        IF _left > 0 AND (NOT _e.deleted OR NOT _exists) THEN
            _left := _left - tokimori_prune_runs(
                _e.job_id, _e.first_id, _e.before, _e.keyed_before, _e.keep_runs, _left);
        END IF;
        IF _left > 0 THEN
            _left := _left - tokimori_prune_skips(_e.job_id, _e.incarnation, _e.before, _e.deleted, _left);
        END IF;
        WITH gone AS (
            DELETE FROM tokimori_arrivals WHERE incarnation = _e.incarnation AND root IN (
                SELECT root FROM tokimori_arrivals WHERE incarnation = _e.incarnation AND latest < _e.keyed_before
                LIMIT _left FOR UPDATE SKIP LOCKED) RETURNING root)
        SELECT _left - count(*) INTO _left FROM gone;
        IF _left > 0 AND _e.deleted THEN
            DELETE FROM tokimori_deleted_jobs WHERE incarnation = _e.incarnation
                AND NOT EXISTS (SELECT FROM tokimori_skips WHERE incarnation = _e.incarnation)
                AND NOT EXISTS (SELECT FROM tokimori_arrivals WHERE incarnation = _e.incarnation)
                AND NOT EXISTS (SELECT FROM tokimori_runs WHERE incarnation = _e.incarnation)
                AND (_exists OR NOT EXISTS (SELECT FROM tokimori_history WHERE job_id = _e.job_id));
        END IF;
    END LOOP;
    RETURN _limit - _left;
END $$;
