-- The node gets ready runs by (rank, id), each if nothing refuses it; what is refused joins a line. Nothing is waited
-- for: what is locked stays ready. Asked again, the same runs. The runs' own lanes say whether they may be claimed: who
-- pauses a job takes them, under its gate. Runs of many jobs, one of each and none of them running, as they come when
-- schedules meet at a moment, are taken without counting: all fit. A last row of nothing says that it was cut short.
CREATE OR REPLACE FUNCTION tokimori_claim(
    _claim uuid, _node uuid, _lanes text[], _limit int, _skip int, _now bigint)
RETURNS TABLE ({RUN types}, definition text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _left integer := _limit;  -- how many may still be taken
    _batch integer := _limit;
    _wide integer := _limit;  -- into so many lanes is looked, the first ones
    _near text[];
    _rank bigint;  -- where the head of the last one is; NULL: these are all
    _last uuid;
    _cut boolean := false;
    _any boolean := false;  -- some gate was ours: its runs were taken, sent to a line, or moved
    _found integer;
    _took integer;
    _ids uuid[];
    _refused uuid[];
    _jobs bigint[];
    _free bigint[];     -- gates of jobs without a limit, shared with other claims
    _limited bigint[];  -- gates of jobs with one, held alone: who counts must be the only one
    _busy bigint[] := '{}';
    _keyed bigint[];    -- jobs of which a candidate has a key; NULL: none
    _wanting boolean;   -- some want semaphores, or have keys
    _all boolean;       -- whatever was found may be taken, as far as limits of jobs go
    _judged record;
    _paced text[];      -- rates of queues
    _followed record;
    _gates bigint[] := '{}';  -- whose turn refused runs pass on
    _key_jobs bigint[] := '{}';
    _keys text[] := '{}';
    _names text[] := '{}';
BEGIN
    SELECT ARRAY(
        SELECT name FROM tokimori_semaphores WHERE name > 'queue:' AND name < 'queue;' AND rate IS NOT NULL)
    INTO _paced FROM tokimori_nodes WHERE id = _node AND state = 'alive' FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM tokimori_runs WHERE state = 'running' AND node_id = _node AND claim_id = _claim) THEN
        _left := 0;
    END IF;
    WHILE _left > 0 AND NOT _cut LOOP
        _near := _lanes;
        _rank := NULL;
        IF _wide < cardinality(_lanes) THEN
            SELECT array_agg(lane), (array_agg("rank"))[_wide], (array_agg(id))[_wide] INTO _near, _rank, _last FROM (
                SELECT l.lane, r."rank", r.id FROM unnest(_lanes) AS l (lane) CROSS JOIN LATERAL (
                    SELECT "rank", id FROM tokimori_runs
                    WHERE state = 'ready' AND lane = l.lane
                    ORDER BY "rank", id LIMIT 1) r
                ORDER BY r."rank", r.id LIMIT _wide) h;
        END IF;
        SELECT array_agg(c.id), coalesce(array_agg(DISTINCT c.incarnation), '{}'), count(*),
            array_agg(DISTINCT c.incarnation) FILTER (WHERE c.concurrency_key IS NOT NULL)
        INTO _ids, _jobs, _found, _keyed
        FROM (
            SELECT r.id, r.incarnation, r.concurrency_key FROM unnest(_near) AS l (lane) CROSS JOIN LATERAL (
                SELECT id, incarnation, "rank", concurrency_key FROM tokimori_runs
                WHERE state = 'ready' AND lane = l.lane AND incarnation <> ALL (_busy)
                    AND ("rank", id) <= (coalesce(_rank, 9223372036854775807), _last)
                    AND "rank" < coalesce((  -- no index leads around the runs of jobs that others hold
                        SELECT "rank" FROM tokimori_runs
                        WHERE cardinality(_busy) > 0 AND state = 'ready' AND lane = l.lane
                        ORDER BY "rank", id LIMIT 1 OFFSET 1000), 9223372036854775807)
                ORDER BY "rank", id LIMIT _batch OFFSET _skip FOR UPDATE SKIP LOCKED) r
            ORDER BY r."rank", r.id LIMIT _batch) c;
        EXIT WHEN _found = 0 AND _rank IS NULL;
        SELECT coalesce(array_agg(incarnation), '{}'), coalesce(bool_or(wants), false) INTO _limited, _wanting FROM (
            SELECT j.incarnation, j.semaphores IS NOT NULL OR incarnation = ANY (_keyed) AS wants
            FROM unnest(_jobs) AS c (incarnation) JOIN tokimori_jobs j USING (incarnation)
            WHERE (j.max_running > 0 OR incarnation = ANY (_keyed))
            FOR NO KEY UPDATE OF j SKIP LOCKED) l;
        _free := '{}';
        IF cardinality(_limited) < cardinality(_jobs) THEN
            SELECT coalesce(array_agg(incarnation), '{}'), coalesce(bool_or(wants), false) OR _wanting
            INTO _free, _wanting FROM (
                SELECT j.incarnation, j.semaphores IS NOT NULL AS wants
                FROM unnest(_jobs) AS c (incarnation) JOIN tokimori_jobs j USING (incarnation)
                WHERE j.max_running = 0 AND (_keyed IS NULL OR incarnation <> ALL (_keyed))
                FOR KEY SHARE OF j SKIP LOCKED) f;
        END IF;
        _any := _any OR cardinality(_free || _limited) > 0;
        IF EXISTS (SELECT FROM tokimori_moves) THEN
            _followed := tokimori_follow(_ids, _free || _limited);
            _ids := _followed.ids;
            _jobs := _followed.jobs;
            _free := ARRAY(SELECT unnest(_free) INTERSECT SELECT unnest(_jobs));
            _limited := ARRAY(SELECT unnest(_limited) INTERSECT SELECT unnest(_jobs));
        END IF;
        _all := cardinality(_limited) = 0;
        IF cardinality(_free) + cardinality(_limited) < cardinality(_jobs) THEN
            _busy := _busy || ARRAY(SELECT i FROM unnest(_jobs) i WHERE i <> ALL (_free || _limited));
            _all := false;
        ELSIF NOT _all THEN
            _all := cardinality(_ids) = cardinality(_jobs) AND NOT EXISTS (
                SELECT FROM unnest(_limited) AS l (incarnation) CROSS JOIN LATERAL (
                    SELECT FROM tokimori_runs WHERE state = 'running' AND incarnation = l.incarnation LIMIT 1) r);
        END IF;
        _wanting := _wanting OR (cardinality(_paced) > 0 AND EXISTS (
            SELECT FROM tokimori_runs WHERE id = ANY (_ids) AND 'queue:' || split_part(lane, '|', 1) = ANY (_paced)));
        IF _wanting THEN
            _judged := tokimori_judge(_claim, _node, _ids, _free || _limited, _paced, _left, _now);
            _took := _judged.took;
            _busy := _busy || _judged.busy;
            _gates := _gates || _judged.gates;
            _key_jobs := _key_jobs || _judged.key_jobs;
            _keys := _keys || _judged.keys;
            _names := _names || _judged.names;
        ELSE
            IF NOT _all OR cardinality(_ids) > _left THEN
                WITH candidate AS (
                    SELECT r.id, j.max_running, row_number() OVER (ORDER BY r."rank", r.id) AS place,
                        row_number() OVER (PARTITION BY r.incarnation ORDER BY r."rank", r.id) + CASE
                            WHEN j.max_running = 0 THEN 0 ELSE (
                                SELECT count(*) FROM tokimori_runs
                                WHERE incarnation = j.incarnation AND state = 'running') END AS nth
                    FROM unnest(_ids) AS c (id) JOIN tokimori_runs r ON r.id = c.id
                    JOIN tokimori_jobs j ON j.incarnation = r.incarnation
                    WHERE r.incarnation = ANY (_free || _limited)
                ), judged AS (
                    SELECT id, fits, count(*) FILTER (WHERE fits) OVER (ORDER BY place) AS taken
                    FROM (SELECT id, place, max_running = 0 OR nth <= max_running AS fits FROM candidate) c
                )
                SELECT array_agg(id) FILTER (WHERE fits AND taken <= _left),
                    array_agg(id) FILTER (WHERE NOT fits AND taken < _left) INTO _ids, _refused FROM judged;
                UPDATE tokimori_runs SET state = 'blocked' WHERE id = ANY (_refused);
            END IF;
            UPDATE tokimori_runs SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = _node,
                claim_id = _claim, pid = NULL, started = NULL, exit_code = NULL, signal = NULL, error = NULL,
                cpu = NULL, memory = NULL
            WHERE id = ANY (_ids);
            GET DIAGNOSTICS _took = ROW_COUNT;
        END IF;
        _left := _left - _took;
        IF _found < _batch THEN
            EXIT WHEN _rank IS NULL;
            _wide := 4 * _wide;
        END IF;
        _batch := greatest(_left, least(4 * _batch, 1000));
        _cut := clock_timestamp() > now() + interval '0.05 s';
    END LOOP;
    IF cardinality(_gates) + cardinality(_keys) + cardinality(_names) > 0 THEN
        PERFORM tokimori_wake(_gates);
        PERFORM tokimori_wake_keys(_key_jobs, _keys);
        PERFORM tokimori_free(ARRAY(SELECT DISTINCT n COLLATE "C" FROM unnest(_names) n ORDER BY 1));
    END IF;
    RETURN QUERY SELECT {r.RUN}, j.definition FROM tokimori_runs r LEFT JOIN tokimori_jobs j USING (incarnation)
    WHERE r.state = 'running' AND r.node_id = _node AND r.claim_id = _claim ORDER BY r."rank", r.id;
    IF _cut AND _any AND _left > 0 THEN
        RETURN NEXT;
    END IF;
END $$;
