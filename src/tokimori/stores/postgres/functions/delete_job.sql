-- A job is forgotten: 'deleted', 'begun' where not all of its runs have ended, 'unknown', 'other job' where it is not the
-- one any more that the caller has read (`Job.stamp`), or 'parent' where others say that they run after it. What it
-- was is kept if something of it runs. The family is locked before the gate, and has another version afterwards: what is
-- deleted gets no children meanwhile.
CREATE OR REPLACE FUNCTION tokimori_delete_job(
    _id text, _reason text, _now bigint, _known text, OUT answer text, OUT incarnation bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _job tokimori_jobs;
BEGIN
    PERFORM tokimori_lock_family(NULL);
    SELECT * INTO _job FROM tokimori_jobs WHERE id = _id FOR UPDATE;
    answer := CASE WHEN EXISTS (SELECT FROM tokimori_edges WHERE parent = _id AND declared_by = child) THEN 'parent'
        WHEN _job.incarnation IS NULL THEN 'unknown'
        WHEN _known <> concat_ws(' ', _job.incarnation, _job.version, _job.state) THEN 'other job' END;
    IF answer IS NOT NULL THEN
        RETURN;
    END IF;
    PERFORM tokimori_declare(ARRAY[_id], '[]', NULL);
    INSERT INTO tokimori_deleted_jobs (incarnation, job_id) VALUES (_job.incarnation, _id);
    PERFORM tokimori_begin_move(_job.incarnation, NULL, _reason, _now);
    DELETE FROM tokimori_jobs WHERE incarnation = _job.incarnation;
    UPDATE tokimori_deleted_jobs SET version = _job.version, definition = _job.definition, created = _job.created,
        deleted = _now
    WHERE incarnation = _job.incarnation
        AND EXISTS (SELECT FROM tokimori_runs WHERE incarnation = _job.incarnation AND state = 'running');
    incarnation := _job.incarnation;
    answer := CASE WHEN tokimori_move_runs(incarnation) THEN 'deleted' ELSE 'begun' END;
END $$;
