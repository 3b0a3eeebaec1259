-- Each child of these runs, which have ended, gets its run, in the order in which the children were added; a child that
-- is paused, parked, or has as many active runs as it may, gets a skip at the moment of its parent's end: at the
-- nominal time a range of skips of its own schedule may begin, and take its place. A run of a deleted job has no
-- children: those of another job that has got its id are not its own. The children's gates are locked. Arrivals are
-- taken in one order, too: taking one is what lets each of two parents that end at a time know of the other. `_steps` are
-- the children that the runs themselves name: their ids are known, and they count runs that have arrived, and not jobs.
CREATE OR REPLACE FUNCTION tokimori_bear(_ended uuid[], _steps jsonb) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _child record;
    _arrived text[];
    _runs text[];
    _details text;
    _after text;  -- the bits of its id after the time, as in `model.ids.child_id`
BEGIN
    FOR _child IN
        SELECT c.*, c.ended + c.place AS due, coalesce(c.step, c.root) AS join_key,
            CASE WHEN c.step IS NULL THEN c.job_id ELSE c.parent::text END AS arrived FROM (
            SELECT h.id AS parent, h.job_id, h.nominal, h.ended, coalesce(h.result, h.payload) AS payload,
                coalesce(h.root, CASE WHEN h.origin LIKE 's:%' THEN h.origin ELSE h.id::text END) AS root,
                e.joins, j.id, j.incarnation, j.state, j.lane, j.most_active,
                j.concurrency_key AS key, j.priority, j.head_start,
                row_number() OVER (PARTITION BY h.id ORDER BY j.created, j.id, e."on", e.declared_by) - 1 AS place,
                NULL AS step, '' AS more
            FROM tokimori_history h
            JOIN tokimori_jobs p ON p.incarnation = h.incarnation
            JOIN tokimori_edges e ON e.parent = h.job_id
            JOIN tokimori_jobs j ON j.id = e.child
            WHERE h.id = ANY (_ended) AND CASE e."on" WHEN 'success' THEN h.state = 'succeeded'
                WHEN 'failure' THEN h.state = 'failed' ELSE h.state <> 'skipped' END
            UNION ALL
            SELECT h.id, h.job_id, h.nominal, coalesce(h.ended, s.spawned),
                coalesce(s.payload, CASE WHEN s.joins = 0 THEN h.result END),
                coalesce(h.root, CASE WHEN h.origin LIKE 's:%' THEN h.origin ELSE h.id::text END),
                s.joins, j.id, j.incarnation, j.state, j.lane, j.most_active, j.concurrency_key, j.priority, j.head_start,
                row_number() OVER (PARTITION BY h.id ORDER BY s.place) - 1, s.id, s.more
            FROM ROWS FROM (jsonb_to_recordset(_steps) AS (
                parent uuid, id text, job text, payload text, on_failure boolean, joins integer, more text, spawned bigint))
                WITH ORDINALITY AS s (parent, id, job, payload, on_failure, joins, more, spawned, place)
            JOIN (
                SELECT id, job_id, nominal, ended, result, root, origin, state FROM tokimori_history
                UNION ALL SELECT id, job_id, nominal, NULL, NULL, root, origin, state FROM tokimori_runs
            ) h ON h.id = s.parent AND h.id = ANY (_ended)
            JOIN tokimori_jobs j ON j.id = s.job
            WHERE _steps IS NOT NULL AND h.state = CASE WHEN s.on_failure THEN 'failed' WHEN s.spawned IS NOT NULL
                THEN 'waiting' ELSE 'succeeded' END) c
        ORDER BY c.incarnation, join_key, c.parent, c.place
    LOOP
        _details := nullif('{' || substr(_child.more, 2) || '}', '{}');
        IF _child.joins > 0 THEN
            INSERT INTO tokimori_arrivals AS a (incarnation, root, parents, latest)
            VALUES (_child.incarnation, _child.join_key, ARRAY[_child.arrived], _child.ended)
            ON CONFLICT (incarnation, root) DO UPDATE
            SET latest = greatest(a.latest, excluded.latest), parents = CASE WHEN a.parents = '{*}' THEN a.parents
                ELSE array_remove(a.parents, _child.arrived) || excluded.parents END
            RETURNING parents INTO _arrived;
            -- The ids of their runs have a key of their own, as in `rules.new_runs`: older programs count jobs alone.
            INSERT INTO tokimori_arrivals AS a (incarnation, root, parents, latest)
            VALUES (_child.incarnation, 'r:' || _child.join_key,
                CASE WHEN _arrived = '{*}' THEN _arrived ELSE ARRAY[_child.parent::text] END, _child.ended)
            ON CONFLICT (incarnation, root) DO UPDATE
            SET latest = greatest(a.latest, excluded.latest), parents = CASE WHEN _arrived = '{*}' THEN _arrived
                ELSE array_remove(a.parents, _child.parent::text) || excluded.parents END
            RETURNING parents INTO _runs;
            CONTINUE WHEN _arrived = '{*}' OR cardinality(_arrived) < _child.joins;
            -- The key has the collation of a run's root, with which no index of arrivals would be used.
            UPDATE tokimori_arrivals SET parents = '{*}' WHERE incarnation = _child.incarnation
                AND root IN (_child.join_key COLLATE "default", 'r:' || _child.join_key COLLATE "default");
            _details := '{"parents":["'
                || (SELECT string_agg(r, '","' ORDER BY r COLLATE "C") FROM unnest(_runs) r) || '"]' || _child.more || '}';
        END IF;
        IF _child.state NOT IN ('paused', 'parked') AND _child.most_active IS NOT NULL
            AND cardinality(tokimori_full(ARRAY[_child.incarnation])) > 0 THEN
            _child.state := 'full';
        END IF;
        IF _child.state IN ('paused', 'parked', 'full') THEN
            INSERT INTO tokimori_skips AS s (incarnation, first, last, count, reason)
            VALUES (_child.incarnation, _child.ended, _child.ended, 1, _child.state)
            ON CONFLICT (incarnation, first) DO UPDATE
            SET last = excluded.last, count = s.count + 1, reason = excluded.reason;
            CONTINUE;
        END IF;
        _after := lpad(to_hex(_child.place), 6, '0')
            || lpad(to_hex((tokimori_child_base(_child.parent) + _child.place) % 281474976710656), 12, '0');
        INSERT INTO tokimori_runs (
            id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, parent_id,
            root, concurrency_key, details)
        SELECT coalesce(_child.step, lpad(to_hex(_child.due / 1000), 12, '0') || '7' || substr(_after, 1, 3) || '8'
                || substr(_after, 4))::uuid,
            _child.id, _child.incarnation, o.origin, _child.nominal, _child.due, 'ready', _child.priority,
            _child.due - _child.head_start, _child.lane, _child.ended, _child.payload, _child.parent,
            _child.root, _child.key, _details
        FROM (SELECT 'c:' || CASE WHEN _child.step IS NOT NULL OR _child.joins > 0 THEN _child.join_key
            ELSE _child.parent::text END AS origin) o
        WHERE NOT EXISTS (
            SELECT FROM tokimori_history h
            WHERE h.incarnation = _child.incarnation AND h.origin = o.origin AND h.origin NOT LIKE 's:%'
            UNION ALL SELECT FROM tokimori_history h WHERE h.id = _child.step::uuid)
        ON CONFLICT DO NOTHING;
    END LOOP;
END $$;
