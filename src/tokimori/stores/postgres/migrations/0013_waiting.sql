-- How many runs of a job may be active, those that wait included. An older node leaves such jobs to others: it can't read
-- their definitions.
-- Nodes since schema 6 work on this one.

ALTER TABLE tokimori_jobs ADD COLUMN most_active integer; -- NULL: any number

-- Those of these jobs (one item for each run to be added) that would have more active runs than they may. Their gates are
-- locked by whoever counts: until the end of its transaction nobody else adds a run of theirs.
CREATE FUNCTION tokimori_full(_coming bigint[]) RETURNS bigint[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tokimori_jobs
    WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_coming) i) AND most_active IS NOT NULL
    ORDER BY incarnation FOR NO KEY UPDATE;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    RETURN ARRAY(
        SELECT j.incarnation
        FROM (SELECT i AS incarnation, count(*) AS runs FROM unnest(_coming) i GROUP BY i) c
        JOIN tokimori_jobs j ON j.incarnation = c.incarnation
        WHERE c.runs + (SELECT count(*) FROM tokimori_runs WHERE incarnation = j.incarnation AND state <> 'held')
            > j.most_active);
END $$;

-- As tokimori_apply_4; a plan whose runs would be too many is refused like one whose job has changed.
CREATE FUNCTION tokimori_apply_13(
    _incarnations bigint[], _versions integer[], _fired_from bigint[], _fired_through bigint[], _next_due bigint[],
    _states text[], _anchors bigint[], _runs_remaining integer[], _tzdata text[], _replaces boolean[],
    _run_ids uuid[], _run_job_ids text[], _run_incarnations bigint[], _run_origins text[], _run_nominals bigint[],
    _run_dues bigint[], _run_priorities integer[], _run_ranks bigint[], _run_lanes text[],
    _run_tzdata text[],
    _skips jsonb, _reason text, _now bigint
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    _full bigint[] := tokimori_full(_run_incarnations);
BEGIN
    RETURN tokimori_apply_4(
        _incarnations, _versions,
        ARRAY(SELECT CASE WHEN p.incarnation = ANY (_full) THEN NULL ELSE p.fired_from END
            FROM unnest(_incarnations, _fired_from) WITH ORDINALITY AS p (incarnation, fired_from, place)
            ORDER BY p.place),
        _fired_through, _next_due, _states, _anchors, _runs_remaining, _tzdata, _replaces,
        _run_ids, _run_job_ids, _run_incarnations, _run_origins, _run_nominals, _run_dues, _run_priorities, _run_ranks,
        _run_lanes, _run_tzdata, _skips, _reason, _now);
END $$;

-- As tokimori_add_runs, of jobs that have room for them.
CREATE FUNCTION tokimori_add_runs_13(
    _ids uuid[], _job_ids text[], _incarnations bigint[], _origins text[], _nominals bigint[], _dues bigint[],
    _states text[], _priorities integer[], _ranks bigint[], _created bigint[], _payloads text[],
    _tzdata text[], _parents uuid[], _roots text[]
) RETURNS TABLE (added uuid, added_lane text)
LANGUAGE plpgsql AS $$
BEGIN
    IF cardinality(tokimori_full(_incarnations)) = 0 THEN
        RETURN QUERY SELECT * FROM tokimori_add_runs(
            _ids, _job_ids, _incarnations, _origins, _nominals, _dues, _states, _priorities, _ranks, _created,
            _payloads, _tzdata, _parents, _roots);
    END IF;
END $$;

-- As tokimori_replace_job, with the columns of this migration.
CREATE FUNCTION tokimori_replace_job_13(
    _incarnation bigint, _old_version integer, _old_state text, _old_fired_through bigint,
    _version integer, _definition text, _state text, _reason text, _by text, _updated bigint, _anchor bigint,
    _fired_through bigint, _next_due bigint, _max_running integer, _lane text, _most_active integer,
    _runs_remaining integer, _tzdata text, _days_off text, _skips jsonb,
    _job text, _edges jsonb, _family bigint
) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    _answer text := tokimori_replace_job(
        _incarnation, _old_version, _old_state, _old_fired_through, _version, _definition, _state, _reason, _by,
        _updated, _anchor, _fired_through, _next_due, _max_running, _lane, _runs_remaining, _tzdata, _days_off, _skips,
        _job, _edges, _family);
BEGIN
    IF _answer = 'replaced' THEN
        UPDATE tokimori_jobs SET most_active = _most_active
        WHERE incarnation = _incarnation AND most_active IS DISTINCT FROM _most_active;
    END IF;
    RETURN _answer;
END $$;

-- As before, and a child that has as many active runs as it may gets a skip, too.
CREATE OR REPLACE FUNCTION tokimori_bear(_ended uuid[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _child record;
    _arrived text[];
    _digest text;
BEGIN
    FOR _child IN
        SELECT c.*, c.ended + c.place AS due FROM (
            SELECT h.id AS parent, h.job_id, h.nominal, h.ended, coalesce(h.result, h.payload) AS payload,
                coalesce(h.root, CASE WHEN h.origin LIKE 's:%' THEN h.origin ELSE h.id::text END) AS root,
                e.joins, j.id, j.incarnation, j.state, j.lane,
                coalesce((j.definition::jsonb ->> 'priority')::integer, 0) AS priority,
                row_number() OVER (PARTITION BY h.id ORDER BY j.created, j.id) - 1 AS place
            FROM tokimori_history h
            JOIN tokimori_jobs p ON p.incarnation = h.incarnation
            JOIN tokimori_edges e ON e.parent = h.job_id
            JOIN tokimori_jobs j ON j.id = e.child
            WHERE h.id = ANY (_ended) AND CASE e."on" WHEN 'success' THEN h.state = 'succeeded'
                WHEN 'failure' THEN h.state = 'failed' ELSE h.state <> 'skipped' END) c
        ORDER BY c.incarnation, c.root, c.parent
    LOOP
        IF _child.joins > 0 THEN
            INSERT INTO tokimori_arrivals AS a (incarnation, root, parents)
            VALUES (_child.incarnation, _child.root, ARRAY[_child.job_id])
            ON CONFLICT (incarnation, root) DO UPDATE
            SET parents = array_remove(a.parents, _child.job_id) || excluded.parents
            RETURNING parents INTO _arrived;
            CONTINUE WHEN cardinality(_arrived) < _child.joins;
            DELETE FROM tokimori_arrivals WHERE incarnation = _child.incarnation AND root = _child.root;
        END IF;
        IF _child.state NOT IN ('paused', 'parked') AND cardinality(tokimori_full(ARRAY[_child.incarnation])) > 0 THEN
            _child.state := 'full';
        END IF;
        IF _child.state IN ('paused', 'parked', 'full') THEN
            INSERT INTO tokimori_skips AS s (incarnation, first, last, count, reason)
            VALUES (_child.incarnation, _child.ended, _child.ended, 1, _child.state)
            ON CONFLICT (incarnation, first) DO UPDATE
            SET last = excluded.last, count = s.count + 1, reason = excluded.reason;
            CONTINUE;
        END IF;
        _digest := md5(_child.parent || '/' || _child.incarnation);
        INSERT INTO tokimori_runs (
            id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, parent_id,
            root)
        SELECT (lpad(to_hex(_child.due / 1000), 12, '0') || '7' || substr(_digest, 1, 3) || '8'
                || substr(_digest, 4, 15))::uuid,
            _child.id, _child.incarnation, o.origin, _child.nominal, _child.due, 'ready', _child.priority,
            _child.due - _child.priority * 60000000, _child.lane, _child.ended, _child.payload, _child.parent,
            _child.root
        FROM (SELECT 'c:' || CASE WHEN _child.joins > 0 THEN _child.root ELSE _child.parent::text END AS origin) o
        WHERE NOT EXISTS (
            SELECT FROM tokimori_history h
            WHERE h.incarnation = _child.incarnation AND h.origin = o.origin AND h.origin NOT LIKE 's:%')
        ON CONFLICT (incarnation, origin) DO NOTHING;
    END LOOP;
END $$;
