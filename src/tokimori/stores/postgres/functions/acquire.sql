-- A program asks for units, or asks again: 'granted' with its token, 'waiting' with how many stand before it, 'gone':
-- its node is dead; 'limit' and 'weight' refuse it, with the limit that the semaphore has.
CREATE OR REPLACE FUNCTION tokimori_acquire(
    _id text, _node uuid, _name text, _weight integer, _limit integer, _rank bigint, _now bigint, _most integer,
    OUT answer text, OUT number bigint) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _found bigint;
BEGIN
    answer := 'gone';
    PERFORM FROM tokimori_nodes WHERE id = _node AND state = 'alive' FOR KEY SHARE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    LOOP
        SELECT "limit" INTO number FROM tokimori_semaphores WHERE name = _name FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        number := coalesce(_limit, 1);
        IF _weight > number THEN
            answer := 'weight';
            RETURN;
        END IF;
        INSERT INTO tokimori_semaphores (name, "limit") VALUES (_name, number) ON CONFLICT DO NOTHING;
    END LOOP;
    IF NOT EXISTS (SELECT FROM tokimori_permits WHERE id = _id) THEN
        answer := CASE WHEN _limit <> number THEN 'limit' WHEN _weight > number THEN 'weight' END;
        IF answer IS NOT NULL THEN
            RETURN;
        END IF;
        INSERT INTO tokimori_permits (id, semaphore, node_id, weight, "rank", waiting, since)
        VALUES (_id, _name, _node, _weight, _rank, true, _now);
    END IF;
    SELECT token INTO number FROM tokimori_permits WHERE id = _id;
    IF number IS NULL AND tokimori_grant(_name) THEN
        PERFORM tokimori_wake_line(_name, '{}');
        SELECT token INTO number FROM tokimori_permits WHERE id = _id;
    END IF;
    IF number IS NULL THEN  -- a rate says when it goes on
        PERFORM tokimori_wake_in_turn(name) FROM tokimori_semaphores WHERE name = _name AND rate IS NOT NULL;
    END IF;
    answer := CASE WHEN number IS NULL THEN 'waiting' ELSE 'granted' END;
    IF number IS NULL THEN
        SELECT count(*) INTO number FROM (
            SELECT FROM tokimori_permits WHERE semaphore = _name AND waiting AND ("rank", id) < (_rank, _id)
            UNION ALL
            SELECT FROM tokimori_heads(_name) h CROSS JOIN LATERAL (
                SELECT FROM tokimori_runs
                WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane = h.lane AND "rank" < _rank
                ORDER BY "rank", id LIMIT _most) r
            LIMIT _most) before;
    END IF;
END $$;
