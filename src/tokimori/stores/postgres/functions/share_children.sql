-- The gates of the jobs that run after those of these runs are shared, in order: before anything that they run after is locked.
CREATE OR REPLACE FUNCTION tokimori_share_children(_ids uuid[], _steps jsonb) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tokimori_jobs WHERE id IN (
        SELECT s ->> 'job' FROM jsonb_array_elements(_steps) s UNION ALL
        SELECT e.child FROM tokimori_edges e WHERE e.parent IN (SELECT job_id FROM tokimori_runs WHERE id = ANY (_ids)))
    ORDER BY incarnation FOR KEY SHARE;
END $$;
