-- Old runs and skips of many jobs become counts; a deleted job of which nothing is left is forgotten. Looks at so many
-- rows, and says in which of the expiries it stopped, and how far it came there; NULL: it went through all.
CREATE OR REPLACE FUNCTION tokimori_prune(
    _expiries jsonb, _limit integer, OUT at integer, OUT keep_runs integer, OUT kept uuid, OUT after uuid)
LANGUAGE plpgsql AS $$
#variable_conflict use_variable
DECLARE
    _e record;
    _left integer := _limit;
    _wanted integer;
    _exists boolean;
    _ids uuid[];
BEGIN
    at := 0;
    FOR _e IN SELECT e.* FROM jsonb_to_recordset(_expiries) AS e (
        job_id text, incarnation bigint, before bigint, keyed_before bigint, keep_runs integer, made_before uuid,
        kept uuid, after uuid, deleted boolean)
    LOOP
        at := at + 1;
        SELECT _e.keep_runs, _e.kept, _e.after INTO keep_runs, kept, after;
        _exists := NOT _e.deleted OR EXISTS (SELECT FROM tokimori_jobs j WHERE j.id = _e.job_id);
        IF keep_runs > 0 AND EXISTS (
            SELECT FROM tokimori_history h WHERE h.job_id = _e.job_id AND h.id > after AND h.id < _e.made_before)
        THEN
            _wanted := least(keep_runs, 10 * _left);
            _ids := ARRAY(SELECT h.id FROM tokimori_history h WHERE h.job_id = _e.job_id AND h.id < kept
                ORDER BY h.id DESC LIMIT _wanted);
            _left := _left - cardinality(_ids) / 10;
            keep_runs := CASE WHEN cardinality(_ids) = _wanted THEN keep_runs - _wanted ELSE 0 END;
            kept := CASE WHEN cardinality(_ids) = _wanted THEN _ids[_wanted] ELSE after END;
        END IF;
        IF keep_runs = 0 AND (NOT _e.deleted OR NOT _exists) THEN
            _ids := ARRAY(SELECT h.id FROM tokimori_history h WHERE h.job_id = _e.job_id AND h.id > after
                AND h.id < least(_e.made_before, kept) ORDER BY h.id LIMIT _left);
            PERFORM tokimori_prune_runs(_e.job_id, _ids, _e.before, _e.keyed_before);
            _left := _left - cardinality(_ids);
            after := coalesce(_ids[cardinality(_ids)], after);
        END IF;
        _left := _left - tokimori_prune_skips(_e.job_id, _e.incarnation, _e.before, _e.deleted, _left);
        WITH gone AS (
            DELETE FROM tokimori_arrivals WHERE incarnation = _e.incarnation AND root IN (
                SELECT root FROM tokimori_arrivals WHERE incarnation = _e.incarnation AND latest < _e.keyed_before
                LIMIT _left FOR UPDATE SKIP LOCKED) RETURNING root)
        SELECT _left - count(*) INTO _left FROM gone;
        IF _left = 0 THEN
            RETURN;
        END IF;
        DELETE FROM tokimori_deleted_jobs d WHERE _e.deleted AND d.incarnation = _e.incarnation
            AND NOT EXISTS (SELECT FROM tokimori_skips s WHERE s.incarnation = _e.incarnation)
            AND NOT EXISTS (SELECT FROM tokimori_arrivals a WHERE a.incarnation = _e.incarnation)
            AND NOT EXISTS (SELECT FROM tokimori_runs r WHERE r.incarnation = _e.incarnation)
            AND (_exists OR NOT EXISTS (SELECT FROM tokimori_history h WHERE h.job_id = _e.job_id));
    END LOOP;
    at := NULL;
END $$;
