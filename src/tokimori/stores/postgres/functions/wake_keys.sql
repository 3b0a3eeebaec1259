-- The next in the lines of keys become ready, as many as there is room for. The gates are locked alone.
CREATE OR REPLACE FUNCTION tokimori_wake_keys(_jobs bigint[], _keys text[]) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM tokimori_ready(ARRAY(
        SELECT head.id
        FROM (SELECT DISTINCT incarnation, key FROM unnest(_jobs, _keys) AS f (incarnation, key)) f
        JOIN tokimori_jobs j ON j.incarnation = f.incarnation
        CROSS JOIN LATERAL (
            SELECT r.id FROM tokimori_runs r
            WHERE r.incarnation = f.incarnation AND r.concurrency_key = f.key AND r.state = 'blocked'
                AND r.blocked_on = 'key'
            ORDER BY r."rank", r.id
            LIMIT greatest(0, coalesce(j.max_per_key, 1) - (
                SELECT count(*) FROM tokimori_runs
                WHERE incarnation = f.incarnation AND concurrency_key = f.key AND state = 'running'))
        ) head));
END $$;
