-- A job after which others say that they run is not deleted, and what is deleted gets no children meanwhile.
-- Nodes since schema 6 work on this one.

-- Forget a job: 'deleted', 'unknown', or 'parent' where others run after it. The family is locked before the gate.
CREATE FUNCTION tokimori_delete_job_10(_id text, _reason text, _now bigint) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM tokimori_lock_family(NULL);
    IF EXISTS (SELECT FROM tokimori_edges WHERE parent = _id AND declared_by = child) THEN
        RETURN 'parent';
    END IF;
    IF NOT EXISTS (SELECT FROM tokimori_jobs WHERE id = _id) THEN
        RETURN 'unknown';
    END IF;
    IF NOT EXISTS (SELECT FROM tokimori_edges WHERE declared_by = _id) THEN
        UPDATE tokimori_family SET version = version + 1;
    END IF;
    RETURN CASE WHEN tokimori_delete_job(_id, _reason, _now) THEN 'deleted' ELSE 'unknown' END;
END $$;
