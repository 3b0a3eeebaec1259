-- Semaphores, keys of runs, and the lines in which runs wait for them. Programs of before work on: what they call keeps
-- its arguments, and does what is new by itself. A claim of theirs is one of today's.
-- Lock order: node, gate, semaphores by name, runs by id. Whoever changes a run that stands in the line of a semaphore
-- has locked that semaphore; of the line of a limit or a key, the gate. Nobody counts units but under its lock.
-- Nodes since schema 6 work on this one.

CREATE TABLE tokimori_semaphores (
    name text COLLATE "C" PRIMARY KEY,
    "limit" integer NOT NULL,
    granted bigint NOT NULL DEFAULT 0 -- how often programs got it: the token of the newest
) WITH (fillfactor = 50);

-- Units that are held, by runs (a row for each semaphore) and by programs; and programs that stand in line.
CREATE TABLE tokimori_permits (
    id text COLLATE "C" PRIMARY KEY, -- of a run's: RUN/SEMAPHORE
    semaphore text COLLATE "C" NOT NULL,
    node_id uuid NOT NULL,
    run_id uuid,            -- NULL: a program's
    token bigint,           -- of the run's claim, or of the grant; NULL: it stands in line
    weight integer NOT NULL,
    "rank" bigint NOT NULL,
    waiting boolean NOT NULL,
    since bigint NOT NULL
) WITH (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX tokimori_permits_held ON tokimori_permits (semaphore, since, id) WHERE NOT waiting;
CREATE INDEX tokimori_permits_line ON tokimori_permits (semaphore, "rank", id) WHERE waiting;
CREATE INDEX tokimori_permits_run ON tokimori_permits (run_id) WHERE run_id IS NOT NULL;
CREATE INDEX tokimori_permits_program ON tokimori_permits (node_id) WHERE run_id IS NULL;

ALTER TABLE tokimori_jobs
    ADD COLUMN semaphores text,      -- JSON: [[name, weight], ...] by name; NULL: none
    ADD COLUMN max_per_key integer;  -- NULL: 1
ALTER TABLE tokimori_runs
    ADD COLUMN concurrency_key text COLLATE "C",
    ADD COLUMN blocked_on text COLLATE "C"; -- 'key', 'semaphore:NAME'; NULL: the job's limit
ALTER TABLE tokimori_history
    ADD COLUMN concurrency_key text COLLATE "C",
    ADD COLUMN blocked_on text COLLATE "C"; -- NULL

DROP INDEX tokimori_runs_blocked;
CREATE INDEX tokimori_runs_blocked ON tokimori_runs (incarnation, "rank", id)
WHERE state = 'blocked' AND blocked_on IS NULL;
CREATE INDEX tokimori_runs_line ON tokimori_runs (blocked_on, lane, "rank", id)
WHERE state = 'blocked' AND blocked_on IS NOT NULL AND lane IS NOT NULL;
CREATE INDEX tokimori_runs_key ON tokimori_runs (incarnation, concurrency_key, state, "rank", id)
WHERE concurrency_key IS NOT NULL;

-- The semaphores that these jobs state, by name.
CREATE FUNCTION tokimori_named(_jobs bigint[]) RETURNS text[]
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(
        SELECT DISTINCT (w ->> 0) COLLATE "C"
        FROM tokimori_jobs j CROSS JOIN LATERAL jsonb_array_elements(j.semaphores::jsonb) w
        WHERE j.incarnation = ANY (_jobs) AND j.semaphores IS NOT NULL ORDER BY 1);
END $$;

-- How many units of a semaphore a job with these semaphores takes.
CREATE FUNCTION tokimori_weight(_semaphores text, _name text) RETURNS integer
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    RETURN (SELECT (w ->> 1)::integer FROM jsonb_array_elements(_semaphores::jsonb) w WHERE w ->> 0 = _name);
END $$;

-- Wait for these semaphores, in order.
CREATE FUNCTION tokimori_lock_semaphores(_names text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(_names) > 0 THEN
        PERFORM FROM tokimori_semaphores WHERE name = ANY (_names) ORDER BY name FOR NO KEY UPDATE;
    END IF;
END $$;

-- How many of its units nobody holds; below zero where its limit was lowered. NULL: there is no such semaphore.
CREATE FUNCTION tokimori_unused(_name text) RETURNS bigint
LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (
        SELECT "limit" - coalesce((SELECT sum(weight) FROM tokimori_permits WHERE semaphore = _name AND NOT waiting), 0)
        FROM tokimori_semaphores WHERE name = _name);
END $$;

-- The first of each lane in the line of a semaphore. The index is walked from one lane to the next.
CREATE FUNCTION tokimori_heads(_name text) RETURNS TABLE (lane text, "rank" bigint, incarnation bigint)
LANGUAGE sql STABLE AS $$
    WITH RECURSIVE walk (lane, "rank", incarnation) AS (
        (SELECT lane, "rank", incarnation FROM tokimori_runs
        WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane IS NOT NULL
        ORDER BY lane, "rank", id LIMIT 1)
        UNION ALL
        SELECT n.lane, n."rank", n.incarnation FROM walk CROSS JOIN LATERAL (
            SELECT lane, "rank", incarnation FROM tokimori_runs
            WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane > walk.lane
            ORDER BY lane, "rank", id LIMIT 1) n)
    SELECT lane, "rank", incarnation FROM walk
$$;

-- Give units of a semaphore, which is locked, to the programs that are next in line, as long as no blocked run is
-- before them; whether any got some.
CREATE FUNCTION tokimori_grant(_name text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _left bigint := tokimori_unused(_name);
    _first bigint := (SELECT min("rank") FROM tokimori_heads(_name));
    _token bigint;
    _program record;
BEGIN
    FOR _program IN
        SELECT id, weight FROM tokimori_permits
        WHERE semaphore = _name AND waiting AND "rank" <= coalesce(_first, 9223372036854775807)
        ORDER BY "rank", id LIMIT greatest(_left, 0)
    LOOP
        EXIT WHEN _program.weight > _left;
        UPDATE tokimori_semaphores SET granted = granted + 1 WHERE name = _name RETURNING granted INTO _token;
        UPDATE tokimori_permits SET waiting = false, token = _token WHERE id = _program.id;
        _left := _left - _program.weight;
    END LOOP;
    RETURN _token IS NOT NULL;
END $$;

-- Make the heads of each lane ready, in the line of a semaphore, which is locked: as many as fit together, and are
-- before every program that waits. Nothing in `_busy` lanes.
CREATE FUNCTION tokimori_wake_line(_name text, _busy text[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _left bigint := tokimori_unused(_name);
    _before bigint;
BEGIN
    IF _left > 0 THEN
        SELECT "rank" INTO _before FROM tokimori_permits WHERE semaphore = _name AND waiting
        ORDER BY "rank", id LIMIT 1;
        UPDATE tokimori_runs SET state = 'ready', blocked_on = NULL WHERE id = ANY (ARRAY(
            SELECT w.id FROM tokimori_heads(_name) h CROSS JOIN LATERAL (
                SELECT r.id,
                    sum(coalesce(tokimori_weight(j.semaphores, _name), 1)) OVER (ORDER BY r."rank", r.id) AS units
                FROM (
                    SELECT id, incarnation, "rank" FROM tokimori_runs
                    WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane = h.lane
                        AND "rank" < coalesce(_before, 9223372036854775807)
                    ORDER BY "rank", id LIMIT _left) r
                LEFT JOIN tokimori_jobs j ON j.incarnation = r.incarnation) w
            WHERE h.lane <> ALL (_busy) AND w.units <= _left));
    END IF;
END $$;

-- Both, for each of these semaphores, which are locked.
CREATE FUNCTION tokimori_free(_names text[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    _name text;
BEGIN
    FOREACH _name IN ARRAY coalesce(_names, '{}') LOOP
        PERFORM tokimori_grant(_name);
        PERFORM tokimori_wake_line(_name, '{}');
    END LOOP;
END $$;

-- As before, of the line of the limit alone.
CREATE OR REPLACE FUNCTION tokimori_wake(_freed bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _gates bigint[];
BEGIN
    _gates := ARRAY(
        SELECT incarnation FROM tokimori_jobs
        WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_freed) i) AND max_running > 0
        ORDER BY incarnation FOR NO KEY UPDATE);
    IF cardinality(_gates) > 0 THEN
        UPDATE tokimori_runs SET state = 'ready' WHERE id = ANY (ARRAY(
            SELECT head.id
            FROM (SELECT i AS incarnation, count(*) AS places FROM unnest(_freed) i WHERE i = ANY (_gates) GROUP BY i) f
            JOIN tokimori_jobs j ON j.incarnation = f.incarnation
            CROSS JOIN LATERAL (
                SELECT r.id FROM tokimori_runs r
                WHERE r.incarnation = j.incarnation AND r.state = 'blocked' AND r.blocked_on IS NULL
                ORDER BY r."rank", r.id
                LIMIT greatest(0, least(f.places, j.max_running - (
                    SELECT count(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state = 'running')))
            ) head));
    END IF;
END $$;

CREATE OR REPLACE FUNCTION tokimori_wake_all(_incarnation bigint) RETURNS void
LANGUAGE sql AS $$
    UPDATE tokimori_runs SET state = 'ready'
    WHERE incarnation = _incarnation AND state = 'blocked' AND blocked_on IS NULL
$$;

-- The same of the lines of keys: as many as there is room for. The gates are locked alone.
CREATE FUNCTION tokimori_wake_keys(_jobs bigint[], _keys text[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE tokimori_runs SET state = 'ready', blocked_on = NULL WHERE id = ANY (ARRAY(
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

-- Serve a few semaphores for which a run waits that could have its units, while nothing of its lane is ready. What is
-- locked is not waited for. The lines are few, however many runs stand in them.
CREATE FUNCTION tokimori_sweep(_most integer) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _stuck text[];
    _name text;
BEGIN
    _stuck := ARRAY(
        WITH RECURSIVE walk (line) AS (
            SELECT min(blocked_on) FROM tokimori_runs
            WHERE state = 'blocked' AND lane IS NOT NULL AND blocked_on >= 'semaphore:'
            UNION ALL
            SELECT (SELECT min(blocked_on) FROM tokimori_runs
                WHERE state = 'blocked' AND lane IS NOT NULL AND blocked_on > walk.line)
            FROM walk WHERE walk.line IS NOT NULL)
        SELECT DISTINCT s.name
        FROM (SELECT substr(line, 11) AS name FROM walk WHERE line IS NOT NULL LIMIT 1000) s
        CROSS JOIN LATERAL tokimori_heads(s.name) h LEFT JOIN tokimori_jobs j ON j.incarnation = h.incarnation
        WHERE coalesce(tokimori_weight(j.semaphores, s.name), 1) <= tokimori_unused(s.name)
            AND NOT EXISTS (SELECT FROM tokimori_runs WHERE state = 'ready' AND lane = h.lane)
            AND NOT EXISTS (
                SELECT FROM tokimori_permits WHERE semaphore = s.name AND waiting AND "rank" <= h."rank")
        ORDER BY 1 LIMIT _most);
    IF cardinality(_stuck) > 0 THEN
        FOR _name IN SELECT name FROM tokimori_semaphores WHERE name = ANY (_stuck) FOR NO KEY UPDATE SKIP LOCKED LOOP
            PERFORM tokimori_wake_line(_name, ARRAY(
                SELECT h.lane FROM tokimori_heads(_name) h
                WHERE EXISTS (SELECT FROM tokimori_runs r WHERE r.state = 'ready' AND r.lane = h.lane)));
        END LOOP;
    END IF;
END $$;

-- A program asks for units, or asks again: 'granted' with its token, 'waiting' behind so many; 'gone': its node is
-- dead; 'limit' and 'weight' refuse it, with the limit that the semaphore has.
CREATE FUNCTION tokimori_acquire(
    _id text, _node uuid, _name text, _weight integer, _limit integer, _rank bigint, _now bigint, _most integer,
    OUT answer text, OUT told bigint)
LANGUAGE plpgsql AS $$
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
        SELECT "limit" INTO told FROM tokimori_semaphores WHERE name = _name FOR NO KEY UPDATE;
        EXIT WHEN FOUND;
        told := coalesce(_limit, 1);
        IF _weight > told THEN
            answer := 'weight';
            RETURN;
        END IF;
        INSERT INTO tokimori_semaphores (name, "limit") VALUES (_name, told) ON CONFLICT DO NOTHING;
    END LOOP;
    IF NOT EXISTS (SELECT FROM tokimori_permits WHERE id = _id) THEN
        answer := CASE WHEN _limit <> told THEN 'limit' WHEN _weight > told THEN 'weight' END;
        IF answer IS NOT NULL THEN
            RETURN;
        END IF;
        INSERT INTO tokimori_permits (id, semaphore, node_id, weight, "rank", waiting, since)
        VALUES (_id, _name, _node, _weight, _rank, true, _now);
    END IF;
    SELECT token INTO told FROM tokimori_permits WHERE id = _id;
    IF told IS NULL AND tokimori_grant(_name) THEN
        PERFORM tokimori_wake_line(_name, '{}');
        SELECT token INTO told FROM tokimori_permits WHERE id = _id;
    END IF;
    answer := CASE WHEN told IS NULL THEN 'waiting' ELSE 'granted' END;
    IF told IS NULL THEN
        SELECT count(*) INTO told FROM (
            SELECT FROM tokimori_permits WHERE semaphore = _name AND waiting AND ("rank", id) < (_rank, _id)
            UNION ALL
            SELECT FROM tokimori_heads(_name) h CROSS JOIN LATERAL (
                SELECT FROM tokimori_runs
                WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane = h.lane AND "rank" < _rank
                ORDER BY "rank", id LIMIT _most) r
            LIMIT _most) before;
    END IF;
END $$;

-- A program gives its units back, or leaves the line; whether it was there.
CREATE FUNCTION tokimori_release(_id text, _node uuid) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _name text;
BEGIN
    SELECT semaphore INTO _name FROM tokimori_permits WHERE id = _id AND node_id = _node AND run_id IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM tokimori_lock_semaphores(ARRAY[_name]);
    DELETE FROM tokimori_permits WHERE id = _id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM tokimori_free(ARRAY[_name]);
    RETURN true;
END $$;

-- Make a semaphore, or change its limit; otherwise NULL, the most units that something in its line wants.
CREATE FUNCTION tokimori_put_semaphore(_name text, _limit integer) RETURNS integer
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _most integer;
BEGIN
    INSERT INTO tokimori_semaphores AS s (name, "limit") VALUES (_name, _limit)
    ON CONFLICT (name) DO UPDATE SET "limit" = s."limit";
    _most := greatest(
        (SELECT max(weight) FROM tokimori_permits WHERE semaphore = _name AND waiting),
        (SELECT max(tokimori_weight(j.semaphores, _name)) FROM (
                SELECT DISTINCT incarnation FROM tokimori_runs
                WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane IS NOT NULL) r
            JOIN tokimori_jobs j ON j.incarnation = r.incarnation));
    IF _most > _limit THEN
        RETURN _most;
    END IF;
    UPDATE tokimori_semaphores SET "limit" = _limit WHERE name = _name;
    PERFORM tokimori_free(ARRAY[_name]);
    RETURN NULL;
END $$;

-- Forget a semaphore; false where units are held, or something waits.
CREATE FUNCTION tokimori_delete_semaphore(_name text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tokimori_semaphores WHERE name = _name FOR UPDATE;
    IF EXISTS (SELECT FROM tokimori_permits WHERE semaphore = _name AND waiting)
        OR EXISTS (SELECT FROM tokimori_permits WHERE semaphore = _name AND NOT waiting)
        OR EXISTS (SELECT FROM tokimori_runs
            WHERE state = 'blocked' AND blocked_on = 'semaphore:' || _name AND lane IS NOT NULL) THEN
        RETURN false;
    END IF;
    DELETE FROM tokimori_semaphores WHERE name = _name;
    RETURN true;
END $$;

-- What programs of a node hold is free, and their places in line are gone. The node's row is locked.
CREATE FUNCTION tokimori_drop_programs(_node uuid) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _names text[];
BEGIN
    _names := ARRAY(SELECT DISTINCT semaphore FROM tokimori_permits WHERE node_id = _node AND run_id IS NULL);
    IF cardinality(_names) > 0 THEN
        PERFORM tokimori_lock_semaphores(_names);
        DELETE FROM tokimori_permits WHERE node_id = _node AND run_id IS NULL;
        PERFORM tokimori_free(_names);
    END IF;
END $$;

-- As before, and its programs go with it.
CREATE OR REPLACE FUNCTION tokimori_bury(_dead uuid, _beat bigint, _observer uuid, _now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tokimori_nodes WHERE id IN (_dead, _observer) ORDER BY id FOR UPDATE;
    UPDATE tokimori_nodes SET state = 'dead', "left" = _now
    WHERE id = _dead AND beat = _beat AND state = 'alive'
        AND EXISTS (SELECT FROM tokimori_nodes WHERE id = _observer AND state = 'alive');
    IF FOUND THEN
        PERFORM tokimori_drop_programs(_dead);
    END IF;
    RETURN EXISTS (SELECT FROM tokimori_nodes WHERE id = _dead AND state = 'dead');
END $$;

-- As before, and its programs go with it.
CREATE OR REPLACE FUNCTION tokimori_leave(_node uuid, _now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tokimori_nodes WHERE id = _node FOR UPDATE;
    UPDATE tokimori_nodes SET state = 'left', "left" = _now
    WHERE id = _node AND state = 'alive'
        AND NOT EXISTS (SELECT FROM tokimori_runs WHERE state = 'running' AND node_id = _node);
    IF FOUND THEN
        PERFORM tokimori_drop_programs(_node);
        DELETE FROM tokimori_nodes WHERE id = _node AND concurrency = 0;
    END IF;
    RETURN NOT EXISTS (SELECT FROM tokimori_nodes WHERE id = _node AND state = 'alive');
END $$;

-- As before, after a look at the lines.
CREATE OR REPLACE FUNCTION tokimori_tick(_node uuid, _ids uuid[], _tokens bigint[], _pids integer[], _started bigint[])
RETURNS TABLE (
    now bigint, owned uuid[], tokens bigint[], cancels text[], peers uuid[], beats bigint[], orphans boolean,
    next_due bigint, lanes text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE tokimori_nodes SET beat = beat + 1 WHERE id = _node AND state = 'alive';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM tokimori_runs
        WHERE state = 'blocked' AND lane IS NOT NULL AND blocked_on >= 'semaphore:') THEN
        PERFORM tokimori_sweep(4);
    END IF;
    IF cardinality(_ids) > 0 THEN
        UPDATE tokimori_runs r SET pid = s.pid, started = s.started
        FROM unnest(_ids, _tokens, _pids, _started) AS s (id, token, pid, started)
        WHERE r.id = s.id AND r.token = s.token AND r.node_id IS NOT DISTINCT FROM _node
            AND r.state IS NOT DISTINCT FROM 'running';
    END IF;
    RETURN QUERY
    SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, o.ids, o.tokens, o.cancels, p.ids, p.beats,
        cardinality(tokimori_dead_owners()) > 0, s.next_due, s.lanes
    FROM (SELECT array_agg(id) AS ids, array_agg(token) AS tokens, array_agg(cancel) AS cancels FROM tokimori_runs
            WHERE state = 'running' AND node_id = _node) o,
        (SELECT array_agg(id) AS ids, array_agg(beat) AS beats FROM tokimori_nodes
            WHERE state = 'alive' AND id <> _node) p,
        tokimori_survey() s;
END $$;
