-- Blocked runs become ready. One that the database refuses stays, and hinders no other: a sweep tries it again, or, where
-- it stands in a line of its job, a move of its runs.
CREATE OR REPLACE FUNCTION tokimori_ready(_ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(_ids) = 0 THEN
        RETURN;
    END IF;
    BEGIN
        UPDATE tokimori_runs SET state = 'ready', blocked_on = NULL WHERE id = ANY (_ids);
    EXCEPTION
        WHEN deadlock_detected OR lock_not_available THEN
            RAISE;
        WHEN OTHERS THEN
            IF cardinality(_ids) > 1 THEN
                PERFORM tokimori_ready(ARRAY[i]) FROM unnest(_ids) i;
                RETURN;
            END IF;
            INSERT INTO tokimori_moves (incarnation, origin, woken, names, since)
            SELECT incarnation, '', (
                SELECT count(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'running'), '{}', 0
            FROM tokimori_jobs j WHERE incarnation = (SELECT incarnation FROM tokimori_runs
                WHERE id = _ids[1] AND (blocked_on IS NULL OR blocked_on = 'key'))
            ON CONFLICT (incarnation) DO UPDATE SET origin = '', woken = excluded.woken;
    END;
END $$;
