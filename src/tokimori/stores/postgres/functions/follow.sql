-- Of candidates of a claim, which are locked as the gates are: those whose jobs have changed meanwhile follow now, and
-- those of a deleted job wait nowhere. Which are left, and their jobs.
CREATE OR REPLACE FUNCTION tokimori_follow(_ids uuid[], _gates bigint[], OUT ids uuid[], OUT jobs bigint[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _moved uuid[];
BEGIN
    WITH moved AS (
        UPDATE tokimori_runs r SET lane = coalesce(m.forced_lane, j.lane)
        FROM tokimori_moves m LEFT JOIN tokimori_jobs j ON j.incarnation = m.incarnation
        WHERE r.id = ANY (_ids) AND r.incarnation = m.incarnation
            AND (j.incarnation IS NULL OR j.incarnation = ANY (_gates))
            AND r.lane IS DISTINCT FROM coalesce(m.forced_lane, j.lane)
        RETURNING r.id)
    SELECT coalesce(array_agg(id), '{}') INTO _moved FROM moved;
    SELECT coalesce(array_agg(id), '{}'), coalesce(array_agg(DISTINCT incarnation), '{}') INTO ids, jobs
    FROM tokimori_runs WHERE id = ANY (_ids) AND id <> ALL (_moved);
END $$;
