-- The line in which a ready run has to stand: '' its job's, 'key' its key's, 'semaphore:NAME'. NULL: it fits. The gate
-- of a job with a limit, and that of a run with a key, are locked alone, and so are its semaphores. `_paced` are rates of
-- queues. How much a rate has left the claim knows. PostgreSQL 18 makes a hash of EXISTS within OR, and reads all runs
-- for it.
CREATE OR REPLACE FUNCTION tokimori_lacks(_id uuid, _paced text[]) RETURNS text LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN (SELECT CASE
        WHEN j.max_running > 0 AND j.max_running <= (
            SELECT count(*) FROM tokimori_runs WHERE incarnation = r.incarnation AND state = 'running') THEN ''
        WHEN r.concurrency_key IS NOT NULL AND (
            coalesce(j.max_per_key, 1) <= (
                SELECT count(*) FROM tokimori_runs
                WHERE incarnation = r.incarnation AND concurrency_key = r.concurrency_key AND state = 'running')
            OR EXISTS (
                SELECT FROM tokimori_runs b
                WHERE b.incarnation = r.incarnation AND b.concurrency_key = r.concurrency_key AND b.state = 'blocked'
                    AND b.blocked_on = 'key' AND (b."rank", b.id) < (r."rank", r.id))) THEN 'key'
        ELSE (
            SELECT 'semaphore:' || (w ->> 0) FROM jsonb_array_elements(
                coalesce(j.semaphores::jsonb, '[]') || CASE WHEN 'queue:' || split_part(r.lane, '|', 1) = ANY (_paced)
                    THEN jsonb_build_array(jsonb_build_array('queue:' || split_part(r.lane, '|', 1), 1)) ELSE '[]' END) w
            WHERE (w ->> 0 NOT LIKE '%:%' AND (w ->> 1)::integer > coalesce(tokimori_unused(w ->> 0), 1))
                OR (
                    SELECT true FROM tokimori_runs b
                    WHERE b.state = 'blocked' AND b.blocked_on = 'semaphore:' || (w ->> 0) AND b.lane = r.lane
                        AND (b."rank", b.id) < (r."rank", r.id) LIMIT 1)
                OR (
                    SELECT true FROM tokimori_permits p
                    WHERE p.semaphore = w ->> 0 AND p.waiting AND p."rank" <= r."rank" LIMIT 1)
            ORDER BY (w ->> 0) COLLATE "C" LIMIT 1)
        END
    FROM tokimori_runs r JOIN tokimori_jobs j ON j.incarnation = r.incarnation WHERE r.id = _id);
END $$;
