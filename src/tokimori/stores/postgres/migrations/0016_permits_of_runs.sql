-- Runs take permits with their claim, and give them back with whatever ends the attempt. Functions whose arguments or
-- columns are others than before bear the number of this migration.
-- Nodes since schema 6 work on this one.

-- In whose line a ready run has to stand: '' its job's, 'key' its key's, 'semaphore:NAME'. NULL: it fits. The gate of a
-- job with a limit, and that of a run with a key, are locked alone, and so are its semaphores.
CREATE FUNCTION tokimori_lacks(_id uuid) RETURNS text
LANGUAGE plpgsql STABLE AS $$
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
            SELECT 'semaphore:' || (w ->> 0) FROM jsonb_array_elements(j.semaphores::jsonb) WITH ORDINALITY AS s (w, n)
            WHERE (w ->> 1)::integer > coalesce(tokimori_unused(w ->> 0), 1)
                OR EXISTS (
                    SELECT FROM tokimori_runs b
                    WHERE b.state = 'blocked' AND b.blocked_on = 'semaphore:' || (w ->> 0) AND b.lane = r.lane
                        AND (b."rank", b.id) < (r."rank", r.id))
                OR EXISTS (
                    SELECT FROM tokimori_permits p
                    WHERE p.semaphore = w ->> 0 AND p.waiting AND p."rank" <= r."rank")
            ORDER BY n LIMIT 1)
        END
    FROM tokimori_runs r JOIN tokimori_jobs j ON j.incarnation = r.incarnation WHERE r.id = _id);
END $$;

-- Make semaphores that nobody has asked for yet; false: somebody else is making them. One claim at a time does: no two
-- wait for each other.
CREATE FUNCTION tokimori_make_semaphores(_names text[]) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    _made integer := 0;
BEGIN
    IF pg_try_advisory_xact_lock(hashtext('tokimori_semaphores')) THEN
        INSERT INTO tokimori_semaphores (name, "limit") SELECT n, 1 FROM unnest(_names) n ORDER BY 1
        ON CONFLICT DO NOTHING;
        GET DIAGNOSTICS _made = ROW_COUNT;
    END IF;
    RETURN _made = cardinality(_names);
END $$;

-- Of candidates some of which want semaphores or have a key: how many are taken. They and the gates of `_jobs` are
-- locked. One after the other, in order, each takes all that it wants, or stands in the line of what it lacks first.
-- `busy` are jobs that want what somebody else has locked: their runs stay ready. Who is behind a refused run in its
-- other lines may be next there: these are `gates`, `keys` (each of the job beside it) and `names`.
CREATE FUNCTION tokimori_judge(
    _claim uuid, _node uuid, _ids uuid[], _jobs bigint[], _left integer, _now bigint, OUT took integer,
    OUT busy bigint[], OUT gates bigint[], OUT key_jobs bigint[], OUT keys text[], OUT names text[])
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _named text[] := tokimori_named(_jobs);
    _locked text[];
    _known text[];
    _barred text[];
    _run record;
    _lacks text;
    _new text[];
BEGIN
    took := 0; busy := '{}'; gates := '{}'; key_jobs := '{}'; keys := '{}'; names := '{}';
    _locked := ARRAY(SELECT name FROM tokimori_semaphores WHERE name = ANY (_named) FOR NO KEY UPDATE SKIP LOCKED);
    _known := ARRAY(SELECT name FROM tokimori_semaphores WHERE name = ANY (_named));
    _barred := ARRAY(SELECT n FROM unnest(_known) n WHERE n <> ALL (_locked));
    FOR _run IN
        SELECT r.id, r.incarnation, r.concurrency_key AS key, tokimori_named(ARRAY[r.incarnation]) AS wants
        FROM unnest(_ids) AS c (id) JOIN tokimori_runs r ON r.id = c.id
        WHERE r.incarnation = ANY (_jobs) ORDER BY r."rank", r.id
    LOOP
        EXIT WHEN took = _left;
        _lacks := tokimori_lacks(_run.id);
        IF NOT _run.wants <@ _locked THEN
            _new := ARRAY(
                SELECT n FROM unnest(_run.wants) n
                WHERE n <> ALL (_known) AND (_lacks IS NULL OR 'semaphore:' || n <= _lacks COLLATE "C"));
            IF _run.wants && _barred OR (cardinality(_new) > 0 AND NOT tokimori_make_semaphores(_new)) THEN
                busy := busy || _run.incarnation;
                CONTINUE;
            END IF;
            _known := _known || _new;
            _locked := _locked || _new;
        END IF;
        IF _lacks IS NULL THEN
            took := took + 1;
            UPDATE tokimori_runs SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = _node,
                claim_id = _claim, pid = NULL, started = NULL, exit_code = NULL, signal = NULL, error = NULL
            WHERE id = _run.id;
            INSERT INTO tokimori_permits (id, semaphore, node_id, run_id, token, weight, "rank", waiting, since)
            SELECT r.id::text || '/' || n, n, _node, r.id, r.token, tokimori_weight(j.semaphores, n), r."rank", false, _now
            FROM unnest(_run.wants) n JOIN tokimori_runs r ON r.id = _run.id
            JOIN tokimori_jobs j ON j.incarnation = r.incarnation;
            CONTINUE;
        END IF;
        UPDATE tokimori_runs SET state = 'blocked', blocked_on = nullif(_lacks, '') WHERE id = _run.id;
        names := names || array_remove(_run.wants, substr(_lacks, 11));
        IF _lacks <> '' THEN
            gates := gates || _run.incarnation;
        END IF;
        IF _lacks <> 'key' AND _run.key IS NOT NULL THEN
            key_jobs := key_jobs || _run.incarnation;
            keys := keys || _run.key;
        END IF;
    END LOOP;
END $$;

-- Give the node ready runs by (rank, id), each if nothing refuses it; what is refused joins a line. Nothing is waited
-- for: what is locked stays ready. Asked again, the same runs.
CREATE FUNCTION tokimori_claim_16(
    _claim uuid, _node uuid, _lanes text[], _limit integer, _most integer, _now bigint)
RETURNS TABLE (
    id uuid, job_id text, incarnation bigint, origin text, nominal bigint, due bigint, state text, priority integer,
    "rank" bigint, lane text, created bigint, payload text, attempt integer, failures integer, lost integer,
    token bigint, node_id uuid, pid integer, started bigint, ended bigint, exit_code integer, signal integer,
    error text, cancel text, tzdata text, parent_id uuid, root text, result text,
    concurrency_key text, blocked_on text, definition text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _left integer := _limit;  -- how many may still be taken
    _batch integer := _limit;
    _seen integer := 0;
    _found integer;
    _took integer;
    _ids uuid[];
    _jobs bigint[];
    _free bigint[];     -- gates of jobs without a limit, shared with other claims
    _limited bigint[];  -- gates of jobs with one, held alone: who counts must be the only one
    _busy bigint[] := '{}';
    _keyed bigint[];    -- jobs of which a candidate has a key; NULL: none
    _wanting boolean;   -- some want semaphores, or have keys
    _judged record;
    _gates bigint[] := '{}';  -- whose turn refused runs pass on
    _key_jobs bigint[] := '{}';
    _keys text[] := '{}';
    _names text[] := '{}';
BEGIN
    PERFORM FROM tokimori_nodes WHERE id = _node AND state = 'alive' FOR KEY SHARE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM tokimori_runs WHERE state = 'running' AND node_id = _node AND claim_id = _claim) THEN
        _left := 0;
    END IF;
    WHILE _left > 0 AND _seen < _limit + _most LOOP
        SELECT array_agg(c.id), coalesce(array_agg(DISTINCT c.incarnation), '{}'), count(*),
            array_agg(DISTINCT c.incarnation) FILTER (WHERE c.concurrency_key IS NOT NULL)
        INTO _ids, _jobs, _found, _keyed
        FROM (
            SELECT r.id, r.incarnation, r.concurrency_key FROM unnest(_lanes) AS l (lane) CROSS JOIN LATERAL (
                SELECT id, incarnation, "rank", concurrency_key FROM tokimori_runs
                WHERE state = 'ready' AND lane = l.lane AND incarnation <> ALL (_busy)
                ORDER BY "rank", id LIMIT _batch FOR UPDATE SKIP LOCKED) r
            ORDER BY r."rank", r.id LIMIT _batch) c;
        EXIT WHEN _found = 0;
        SELECT coalesce(array_agg(incarnation), '{}'), coalesce(bool_or(wants), false) INTO _free, _wanting FROM (
            SELECT j.incarnation, j.semaphores IS NOT NULL AS wants
            FROM unnest(_jobs) AS c (incarnation) JOIN tokimori_jobs j USING (incarnation)
            WHERE j.max_running = 0 AND (_keyed IS NULL OR incarnation <> ALL (_keyed))
            FOR KEY SHARE OF j SKIP LOCKED) f;
        _limited := '{}';
        IF cardinality(_free) < cardinality(_jobs) THEN
            SELECT coalesce(array_agg(incarnation), '{}'), coalesce(bool_or(wants), false) OR _wanting
            INTO _limited, _wanting FROM (
                SELECT j.incarnation, j.semaphores IS NOT NULL OR incarnation = ANY (_keyed) AS wants
                FROM unnest(_jobs) AS c (incarnation) JOIN tokimori_jobs j USING (incarnation)
                WHERE (j.max_running > 0 OR incarnation = ANY (_keyed))
                FOR NO KEY UPDATE OF j SKIP LOCKED) l;
            _busy := _busy || ARRAY(SELECT i FROM unnest(_jobs) i WHERE i <> ALL (_free || _limited));
        END IF;
        IF _wanting THEN
            _judged := tokimori_judge(_claim, _node, _ids, _free || _limited, _left, _now);
            _took := _judged.took;
            _busy := _busy || _judged.busy;
            _gates := _gates || _judged.gates;
            _key_jobs := _key_jobs || _judged.key_jobs;
            _keys := _keys || _judged.keys;
            _names := _names || _judged.names;
            EXIT WHEN clock_timestamp() > now() + interval '0.5 s';
        ELSIF cardinality(_free) = cardinality(_jobs) AND _found <= _left THEN
            UPDATE tokimori_runs SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = _node,
                claim_id = _claim, pid = NULL, started = NULL, exit_code = NULL, signal = NULL, error = NULL
            WHERE id = ANY (_ids);
            _took := _found;
        ELSE
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
            ), taken AS (
                UPDATE tokimori_runs r SET state = 'running', token = token + 1, attempt = attempt + 1, node_id = _node,
                    claim_id = _claim, pid = NULL, started = NULL, exit_code = NULL, signal = NULL, error = NULL
                FROM judged c WHERE r.id = c.id AND c.fits AND c.taken <= _left
                RETURNING 1
            ), refused AS (
                UPDATE tokimori_runs r SET state = 'blocked'
                FROM judged c WHERE r.id = c.id AND NOT c.fits AND c.taken < _left
            )
            SELECT count(*) INTO _took FROM taken;
        END IF;
        _left := _left - _took;
        _seen := _seen + _found;
        EXIT WHEN _found < _batch;
        _batch := greatest(_left, least(4 * _batch, 1000));
    END LOOP;
    IF cardinality(_gates) + cardinality(_keys) + cardinality(_names) > 0 THEN
        PERFORM tokimori_wake(_gates);
        PERFORM tokimori_wake_keys(_key_jobs, _keys);
        PERFORM tokimori_free(ARRAY(SELECT DISTINCT n COLLATE "C" FROM unnest(_names) n ORDER BY 1));
    END IF;
    RETURN QUERY
    SELECT r.id, r.job_id, r.incarnation, r.origin, r.nominal, r.due, r.state, r.priority, r."rank", r.lane, r.created,
        r.payload, r.attempt, r.failures, r.lost, r.token, r.node_id, r.pid, r.started, r.ended, r.exit_code, r.signal,
        r.error, r.cancel, r.tzdata, r.parent_id, r.root, r.result, r.concurrency_key, r.blocked_on,
        j.definition
    FROM tokimori_runs r LEFT JOIN tokimori_jobs j ON j.incarnation = r.incarnation
    WHERE r.state = 'running' AND r.node_id = _node AND r.claim_id = _claim ORDER BY r."rank", r.id;
END $$;

-- As before, for programs of before.
CREATE OR REPLACE FUNCTION tokimori_claim(_claim uuid, _node uuid, _lanes text[], _limit integer, _most integer)
RETURNS TABLE (
    id uuid, job_id text, incarnation bigint, origin text, nominal bigint, due bigint, state text, priority integer,
    "rank" bigint, lane text, created bigint, payload text, attempt integer, failures integer, lost integer,
    token bigint, node_id uuid, pid integer, started bigint, ended bigint, exit_code integer, signal integer,
    error text, cancel text, tzdata text, parent_id uuid, root text, result text, definition text)
LANGUAGE sql AS $$
    SELECT id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, attempt,
        failures, lost, token, node_id, pid, started, ended, exit_code, signal, error, cancel, tzdata, parent_id, root,
        result, definition
    FROM tokimori_claim_16(
        _claim, _node, _lanes, _limit, _most, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
$$;

-- Runs of these jobs that stand in the lines of keys and semaphores are ready again: their claim finds them the line of
-- today. Gates and semaphores are locked.
CREATE FUNCTION tokimori_rejoin(_jobs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE tokimori_runs SET state = 'ready', blocked_on = NULL
    WHERE incarnation = ANY (_jobs) AND state = 'blocked' AND blocked_on IS NOT NULL;
END $$;

-- As before, and what they had of turns in lines goes to the next: a ready one may have been next in any of its lines,
-- and one that stands in that of a semaphore may have kept others from passing.
CREATE OR REPLACE FUNCTION tokimori_cancel(_ids uuid[], _reason text, _now bigint) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _passed bigint[];
    _keys text[];
    _names text[];
BEGIN
    PERFORM tokimori_lock_semaphores(tokimori_named(
        ARRAY(SELECT DISTINCT incarnation FROM tokimori_runs WHERE id = ANY (_ids))));
    PERFORM FROM tokimori_runs WHERE id = ANY (_ids) ORDER BY id FOR UPDATE;
    UPDATE tokimori_runs SET cancel = coalesce(cancel, _reason) WHERE id = ANY (_ids) AND state = 'running';
    WITH gone AS (
        DELETE FROM tokimori_runs WHERE id = ANY (_ids) AND state <> 'running' RETURNING *
    ), kept AS (
        INSERT INTO tokimori_history (
            id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, attempt,
            failures, lost, token, node_id, pid, started, ended, exit_code, signal, error, cancel, settled_by,
            settled_token, tzdata, parent_id, root, concurrency_key)
        SELECT
            id, job_id, incarnation, origin, nominal, due, 'cancelled', priority, "rank", lane, created, payload,
            attempt, failures, lost, token, node_id, pid, started, _now, exit_code, signal, _reason, cancel, settled_by,
            settled_token, tzdata, parent_id, root, concurrency_key
        FROM gone
    )
    SELECT array_agg(incarnation) FILTER (WHERE state = 'ready'),
        array_agg(concurrency_key) FILTER (WHERE state = 'ready'),
        array_agg(substr(blocked_on, 11)) FILTER (WHERE blocked_on LIKE 'semaphore:%')
    INTO _passed, _keys, _names FROM gone;
    IF _passed IS NOT NULL THEN
        PERFORM tokimori_wake(_passed);
        PERFORM tokimori_wake_keys(_passed, _keys);
    END IF;
    PERFORM tokimori_free(ARRAY(
        SELECT unnest(tokimori_named(_passed)) UNION SELECT unnest(_names) ORDER BY 1));
END $$;

-- What a run that has left its line had of turns goes to the next: a ready one may have been next in any of its lines,
-- and one that stood in that of a semaphore may have kept others from passing. Gate and semaphores are locked.
CREATE FUNCTION tokimori_pass_on(_job bigint, _state text, _key text, _blocked_on text, _names text[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF _state = 'ready' THEN
        PERFORM tokimori_wake(ARRAY[_job]);
        PERFORM tokimori_wake_keys(ARRAY[_job], ARRAY[_key]);
        PERFORM tokimori_free(_names);
    ELSIF _blocked_on LIKE 'semaphore:%' THEN
        PERFORM tokimori_free(ARRAY[substr(_blocked_on, 11)]);
    END IF;
END $$;

-- As before, and what it had of turns goes to the next.
CREATE OR REPLACE FUNCTION tokimori_hold_run(_id uuid, _reason text) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _run record;
    _names text[];
BEGIN
    SELECT incarnation INTO _run FROM tokimori_runs WHERE id = _id;
    PERFORM FROM tokimori_jobs WHERE incarnation = _run.incarnation FOR NO KEY UPDATE;
    _names := tokimori_named(ARRAY[_run.incarnation]);
    PERFORM tokimori_lock_semaphores(_names);
    SELECT incarnation, state, concurrency_key, blocked_on INTO _run FROM tokimori_runs
    WHERE id = _id AND state IN ('waiting', 'ready', 'blocked') FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE tokimori_runs SET state = 'held', error = _reason, blocked_on = NULL WHERE id = _id;
    PERFORM tokimori_pass_on(_run.incarnation, _run.state, _run.concurrency_key, _run.blocked_on, _names);
    RETURN true;
END $$;

-- As tokimori_replace_job, with the columns of today; what the old definition wanted goes to the next in line.
CREATE FUNCTION tokimori_replace_job_16(
    _incarnation bigint, _old_version integer, _old_state text, _old_fired_through bigint,
    _version integer, _definition text, _state text, _reason text, _by text, _updated bigint, _anchor bigint,
    _fired_through bigint, _next_due bigint, _max_running integer, _lane text, _most_active integer,
    _runs_remaining integer, _tzdata text, _days_off text, _skips jsonb,
    _job text, _edges jsonb, _family bigint, _semaphores text, _max_per_key integer, _forced_lane text
) RETURNS text
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _live uuid[];
    _names text[];
BEGIN
    IF _edges IS NOT NULL AND NOT tokimori_lock_family(_family) THEN
        RETURN 'other family';
    END IF;
    PERFORM FROM tokimori_jobs
    WHERE incarnation = _incarnation AND version = _old_version AND state = _old_state
        AND fired_through = _old_fired_through
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN 'other job';
    END IF;
    IF _edges IS NOT NULL THEN
        PERFORM tokimori_declare(ARRAY[_job], _edges, _family);
    END IF;
    _names := tokimori_named(ARRAY[_incarnation]);
    PERFORM tokimori_lock_semaphores(_names);
    UPDATE tokimori_jobs SET
        version = _version, definition = _definition, state = _state, reason = _reason, "by" = _by, updated = _updated,
        anchor = _anchor, fired_through = greatest(fired_through, _fired_through), next_due = _next_due,
        max_running = _max_running, lane = _lane, runs_remaining = _runs_remaining, tzdata = _tzdata,
        days_off = _days_off, semaphores = _semaphores, max_per_key = _max_per_key, most_active = _most_active
    WHERE incarnation = _incarnation;
    PERFORM tokimori_keep_skips(_skips);
    -- All are locked, also those that run: nothing settles by the old limit once this is done.
    _live := ARRAY(SELECT id FROM tokimori_runs WHERE incarnation = _incarnation ORDER BY id FOR UPDATE);
    IF _forced_lane IS NULL THEN
        UPDATE tokimori_runs SET lane = _lane WHERE incarnation = _incarnation AND lane IS DISTINCT FROM _lane;
    ELSE -- it stays stopped: only its forced runs have a lane
        UPDATE tokimori_runs SET lane = _forced_lane
        WHERE incarnation = _incarnation AND lane IS NOT NULL AND lane <> _forced_lane;
    END IF;
    IF _max_running = 0 THEN
        PERFORM tokimori_wake_all(_incarnation);
    ELSE
        PERFORM tokimori_wake(array_fill(_incarnation, ARRAY[cardinality(_live)]));
    END IF;
    PERFORM tokimori_rejoin(ARRAY[_incarnation]);
    PERFORM tokimori_free(_names);
    RETURN 'replaced';
END $$;

-- As before; it goes after its runs, which pass their turns on by what it says.
CREATE OR REPLACE FUNCTION tokimori_delete_job(_id text, _reason text, _now bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _incarnation bigint;
BEGIN
    IF EXISTS (SELECT FROM tokimori_edges WHERE declared_by = _id) THEN
        PERFORM tokimori_declare(ARRAY[_id], '[]', NULL);
    END IF;
    SELECT incarnation INTO _incarnation FROM tokimori_jobs WHERE id = _id FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO tokimori_deleted_jobs (incarnation, job_id) VALUES (_incarnation, _id);
    PERFORM tokimori_cancel(
        ARRAY(SELECT id FROM tokimori_runs WHERE incarnation = _incarnation AND state <> 'running'), _reason, _now);
    DELETE FROM tokimori_jobs WHERE incarnation = _incarnation;
    RETURN true;
END $$;

-- As tokimori_add_runs_13, with the columns of today.
CREATE FUNCTION tokimori_add_runs_16(
    _ids uuid[], _job_ids text[], _incarnations bigint[], _origins text[], _nominals bigint[], _dues bigint[],
    _states text[], _priorities integer[], _ranks bigint[], _created bigint[], _payloads text[],
    _tzdata text[], _parents uuid[], _roots text[], _keys text[]
) RETURNS TABLE (added uuid, added_lane text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _added uuid[];
BEGIN
    IF cardinality(tokimori_full(_incarnations)) > 0 THEN
        RETURN;
    END IF;
    PERFORM FROM tokimori_jobs WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_incarnations) i)
    ORDER BY incarnation FOR KEY SHARE;
    WITH born AS (
        INSERT INTO tokimori_runs (
            id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload,
            tzdata, parent_id, root, concurrency_key)
        SELECT r.id, j.id, j.incarnation, r.origin, r.nominal, r.due, r.state, r.priority, r."rank", j.lane, r.created,
            r.payload, r.tzdata, r.parent_id, r.root, r.key
        FROM unnest(_ids, _job_ids, _incarnations, _origins, _nominals, _dues, _states, _priorities, _ranks, _created,
                _payloads, _tzdata, _parents, _roots, _keys)
            AS r (id, job_id, incarnation, origin, nominal, due, state, priority, "rank", created, payload,
                tzdata, parent_id, root, key)
        JOIN tokimori_jobs j ON j.incarnation = r.incarnation AND j.id = r.job_id
        WHERE j.lane IS NOT NULL
        ORDER BY r.incarnation, r.origin
        ON CONFLICT DO NOTHING RETURNING id
    )
    SELECT array_agg(id) INTO _added FROM born;
    -- Read after the insert, which waits for a settle that moves a run of the same origin to the history.
    DELETE FROM tokimori_runs r USING tokimori_history h
    WHERE r.id = ANY (_added) AND h.incarnation = r.incarnation AND h.origin = r.origin AND h.origin NOT LIKE 's:%';
    RETURN QUERY SELECT id, lane FROM tokimori_runs WHERE id = ANY (_added);
END $$;

-- As tokimori_apply_4, with the columns of today.
CREATE FUNCTION tokimori_apply_16(
    _incarnations bigint[], _versions integer[], _fired_from bigint[], _fired_through bigint[], _next_due bigint[],
    _states text[], _anchors bigint[], _runs_remaining integer[], _tzdata text[], _replaces boolean[],
    _run_ids uuid[], _run_job_ids text[], _run_incarnations bigint[], _run_origins text[], _run_nominals bigint[],
    _run_dues bigint[], _run_priorities integer[], _run_ranks bigint[], _run_lanes text[],
    _run_tzdata text[], _run_keys text[],
    _skips jsonb, _reason text, _now bigint
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _accepted bigint[];
    _replacing bigint[];
BEGIN
    WITH moved AS (
        UPDATE tokimori_jobs j
        SET fired_through = greatest(j.fired_through, p.fired_through), next_due = p.next_due, state = p.state,
            anchor = p.anchor, runs_remaining = p.runs_remaining, tzdata = p.tzdata
        FROM unnest(_incarnations, _versions, _fired_from, _fired_through, _next_due, _states, _anchors,
                _runs_remaining, _tzdata)
            AS p (incarnation, version, fired_from, fired_through, next_due, state, anchor, runs_remaining, tzdata)
        WHERE j.incarnation = p.incarnation AND j.version = p.version AND j.fired_through = p.fired_from
            AND j.state = 'enabled'
        RETURNING j.incarnation
    )
    SELECT coalesce(array_agg(incarnation), '{}') INTO _accepted FROM moved;
    IF true = ANY (_replaces) THEN
        _replacing := ARRAY(
            SELECT p.incarnation FROM unnest(_incarnations, _replaces) AS p (incarnation, replaces)
            WHERE p.replaces AND p.incarnation = ANY (_accepted));
        PERFORM tokimori_cancel(
            ARRAY(SELECT id FROM tokimori_runs
                WHERE incarnation = ANY (_replacing) AND origin LIKE 's:%' AND state <> 'held'), _reason, _now);
    END IF;
    INSERT INTO tokimori_runs (
        id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, tzdata,
        concurrency_key)
    SELECT r.id, r.job_id, r.incarnation, r.origin, r.nominal, r.due,
        CASE WHEN r.due <= _now THEN 'ready' ELSE 'waiting' END, r.priority, r."rank", r.lane, _now, r.tzdata, r.key
    FROM unnest(_run_ids, _run_job_ids, _run_incarnations, _run_origins, _run_nominals, _run_dues, _run_priorities,
            _run_ranks, _run_lanes, _run_tzdata, _run_keys)
        AS r (id, job_id, incarnation, origin, nominal, due, priority, "rank", lane, tzdata, key)
    WHERE cardinality(_accepted) = cardinality(_incarnations) OR r.incarnation = ANY (_accepted)
    ON CONFLICT DO NOTHING;
    IF _skips IS NOT NULL THEN
        PERFORM tokimori_keep_skips((
            SELECT jsonb_agg(s) FROM jsonb_array_elements(_skips) s
            WHERE (s ->> 'incarnation')::bigint = ANY (_accepted)));
    END IF;
    RETURN _accepted;
END $$;

-- A plan whose runs would be too many is refused like one whose job has changed.
CREATE FUNCTION tokimori_apply_counted_16(
    _incarnations bigint[], _versions integer[], _fired_from bigint[], _fired_through bigint[], _next_due bigint[],
    _states text[], _anchors bigint[], _runs_remaining integer[], _tzdata text[], _replaces boolean[],
    _run_ids uuid[], _run_job_ids text[], _run_incarnations bigint[], _run_origins text[], _run_nominals bigint[],
    _run_dues bigint[], _run_priorities integer[], _run_ranks bigint[], _run_lanes text[],
    _run_tzdata text[], _run_keys text[],
    _skips jsonb, _reason text, _now bigint
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    _full bigint[] := tokimori_full(_run_incarnations);
BEGIN
    RETURN tokimori_apply_16(
        _incarnations, _versions,
        ARRAY(SELECT CASE WHEN p.incarnation = ANY (_full) THEN NULL ELSE p.fired_from END
            FROM unnest(_incarnations, _fired_from) WITH ORDINALITY AS p (incarnation, fired_from, place)
            ORDER BY p.place),
        _fired_through, _next_due, _states, _anchors, _runs_remaining, _tzdata, _replaces,
        _run_ids, _run_job_ids, _run_incarnations, _run_origins, _run_nominals, _run_dues, _run_priorities, _run_ranks,
        _run_lanes, _run_tzdata, _run_keys, _skips, _reason, _now);
END $$;

-- As before, with the key of the run; who is put off passes its turns on.
CREATE FUNCTION tokimori_ask_run_16(
    _id uuid, _job_id text, _incarnation bigint, _origin text, _nominal bigint, _due bigint, _state text,
    _priority integer, _rank bigint, _created bigint, _payload text, _parent uuid, _root text,
    _lane text, _prefix text, _since bigint, _replaces boolean, _forget bigint, _now bigint, _key text,
    OUT answer text, OUT run uuid)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _job record;
    _newest uuid;
    _was record;
    _names text[];
BEGIN
    SELECT state, coalesce(lane, _lane) AS lane INTO _job FROM tokimori_jobs
    WHERE incarnation = _incarnation AND id = _job_id FOR UPDATE;
    IF NOT FOUND THEN
        answer := 'unknown';
        RETURN;
    END IF;
    SELECT id INTO run FROM (
        SELECT id FROM tokimori_runs WHERE incarnation = _incarnation AND origin = _origin
        UNION ALL SELECT id FROM tokimori_history
        WHERE incarnation = _incarnation AND origin = _origin AND origin NOT LIKE 's:%'
        UNION ALL SELECT run_id FROM tokimori_requests WHERE id = _id) k LIMIT 1;
    IF FOUND THEN
        answer := 'known';
        RETURN;
    END IF;
    IF _job.lane IS NULL THEN
        answer := _job.state;
        RETURN;
    END IF;
    IF _since IS NOT NULL OR _replaces THEN
        SELECT id, CASE WHEN created > _since THEN id END INTO _newest, run FROM (
            (SELECT id, origin, created FROM tokimori_runs
            WHERE incarnation = _incarnation AND origin >= _prefix AND origin < _prefix || 'g'
            ORDER BY origin DESC LIMIT 1)
            UNION ALL
            (SELECT id, origin, created FROM tokimori_history
            WHERE incarnation = _incarnation AND origin >= _prefix AND origin < _prefix || 'g' AND origin NOT LIKE 's:%'
            ORDER BY origin DESC LIMIT 1)) n
        ORDER BY origin DESC LIMIT 1;
        IF run IS NOT NULL THEN
            answer := 'known';
            RETURN;
        END IF;
    END IF;
    IF _replaces THEN
        _names := tokimori_named(ARRAY[_incarnation]);
        PERFORM tokimori_lock_semaphores(_names);
        SELECT id, state, concurrency_key, blocked_on INTO _was FROM tokimori_runs
        WHERE id = _newest AND attempt = 0 AND state IN ('waiting', 'ready', 'blocked') FOR UPDATE;
        IF FOUND THEN
            run := _was.id;
            UPDATE tokimori_runs SET state = 'waiting', nominal = _nominal, due = _due, priority = _priority,
                "rank" = _rank, payload = _payload, lane = _job.lane, blocked_on = NULL
            WHERE id = run;
            DELETE FROM tokimori_requests WHERE asked < _forget;
            INSERT INTO tokimori_requests (id, run_id, asked) VALUES (_id, run, _now);
            PERFORM tokimori_pass_on(_incarnation, _was.state, _was.concurrency_key, _was.blocked_on, _names);
            answer := 'replaced';
            RETURN;
        END IF;
    END IF;
    IF cardinality(tokimori_full(ARRAY[_incarnation])) > 0 THEN
        answer := 'full';
        RETURN;
    END IF;
    INSERT INTO tokimori_runs (
        id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, parent_id, root,
        concurrency_key)
    VALUES (
        _id, _job_id, _incarnation, _origin, _nominal, _due, _state, _priority, _rank, _job.lane, _created, _payload,
        _parent, _root, _key);
    answer := 'made';
    run := _id;
END $$;

-- As before, for programs of before.
CREATE OR REPLACE FUNCTION tokimori_ask_run(
    _id uuid, _job_id text, _incarnation bigint, _origin text, _nominal bigint, _due bigint, _state text,
    _priority integer, _rank bigint, _created bigint, _payload text, _parent uuid, _root text,
    _lane text, _prefix text, _since bigint, _replaces boolean, _forget bigint, _now bigint,
    OUT answer text, OUT run uuid)
LANGUAGE sql AS $$
    SELECT answer, run FROM tokimori_ask_run_16(
        _id, _job_id, _incarnation, _origin, _nominal, _due, _state, _priority, _rank, _created, _payload, _parent,
        _root, _lane, _prefix, _since, _replaces, _forget, _now, NULL)
$$;

-- As before; a child has the key that its job states.
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
                j.definition::jsonb ->> 'concurrency_key' AS key,
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
            root, concurrency_key)
        SELECT (lpad(to_hex(_child.due / 1000), 12, '0') || '7' || substr(_digest, 1, 3) || '8'
                || substr(_digest, 4, 15))::uuid,
            _child.id, _child.incarnation, o.origin, _child.nominal, _child.due, 'ready', _child.priority,
            _child.due - _child.priority * 60000000, _child.lane, _child.ended, _child.payload, _child.parent,
            _child.root, _child.key
        FROM (SELECT 'c:' || CASE WHEN _child.joins > 0 THEN _child.root ELSE _child.parent::text END AS origin) o
        WHERE NOT EXISTS (
            SELECT FROM tokimori_history h
            WHERE h.incarnation = _child.incarnation AND h.origin = o.origin AND h.origin NOT LIKE 's:%')
        ON CONFLICT (incarnation, origin) DO NOTHING;
    END LOOP;
END $$;

-- As before; which were stopped. Gates and semaphores are locked.
DROP FUNCTION tokimori_park;
CREATE FUNCTION tokimori_park(_jobs bigint[], _applied uuid[], _by text) RETURNS bigint[]
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _parked bigint[];
BEGIN
    WITH parked AS (
        UPDATE tokimori_jobs j SET state = 'parked', reason = h.error, "by" = _by, next_due = NULL, lane = NULL
        FROM (SELECT DISTINCT ON (incarnation) incarnation, error FROM tokimori_history
            WHERE id = ANY (_applied) AND incarnation = ANY (_jobs) AND state = 'failed' ORDER BY incarnation, id) h
        WHERE j.incarnation = h.incarnation AND j.state IN ('enabled', 'finished')
        RETURNING j.incarnation
    )
    SELECT array_agg(incarnation) INTO _parked FROM parked;
    PERFORM tokimori_rejoin(_parked);
    UPDATE tokimori_runs SET lane = NULL WHERE incarnation = ANY (_parked);
    RETURN _parked;
END $$;

-- As tokimori_settle before; the permits of runs go back with them. `served`: they serve the lines of others, perhaps.
CREATE FUNCTION tokimori_settle_16(
    _by uuid, _ids uuid[], _incarnations bigint[], _owners uuid[], _tokens bigint[], _states text[], _dues bigint[],
    _ranks bigint[], _failures integer[], _losts integer[], _ended bigint[], _started bigint[], _pids integer[],
    _exit_codes integer[], _signals integer[], _errors text[], _results text[], _parks bigint[],
    _going_on bigint[], _attempts jsonb,
    _out_ids uuid[], _out_attempts integer[], _out_sizes bigint[], _out_heads bytea[], _out_tails bytea[],
    _deleted text, _parked_by text, OUT applied uuid[], OUT already uuid[],
    OUT served boolean)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _living uuid[];  -- other owners that live: their runs are theirs
    _jobs bigint[];  -- jobs that exist, of runs that go on
    _gone_on uuid[] := '{}';
    _families boolean;
    _holding boolean;  -- somebody holds permits, somewhere
    _has_keys boolean; -- some run has a key
    _keyed bigint[] := '{}';  -- jobs of those here that have one
    _names text[];     -- semaphores that may be free after this
    _freed text[];
    _parked bigint[];
BEGIN
    applied := '{}';
    already := '{}';
    served := false;
    PERFORM FROM tokimori_nodes WHERE id = _by AND state = 'alive' FOR KEY SHARE;
    IF FOUND THEN
        _living := ARRAY(SELECT id FROM tokimori_nodes
            WHERE id IN (SELECT DISTINCT o FROM unnest(_owners) o WHERE o <> _by) AND state = 'alive');
        IF cardinality(_parks) > 0 THEN
            PERFORM FROM tokimori_jobs WHERE incarnation = ANY (_parks) ORDER BY incarnation FOR UPDATE;
        END IF;
        SELECT EXISTS (SELECT FROM tokimori_edges), EXISTS (SELECT FROM tokimori_permits),
            coalesce((SELECT true FROM tokimori_runs WHERE concurrency_key IS NOT NULL
                ORDER BY incarnation, concurrency_key LIMIT 1), false)
        INTO _families, _holding, _has_keys;
        IF _families THEN
            PERFORM FROM tokimori_jobs WHERE id IN (
                SELECT e.child FROM tokimori_edges e
                WHERE e.parent IN (SELECT job_id FROM tokimori_runs WHERE id = ANY (_ids)))
            ORDER BY incarnation FOR KEY SHARE;
        END IF;
        IF _has_keys THEN  -- coalesce keeps the planner from walking all runs that have one
            _keyed := ARRAY(
                SELECT DISTINCT incarnation FROM tokimori_runs
                WHERE id = ANY (_ids) AND coalesce(concurrency_key, '') <> '');
        END IF;
        PERFORM FROM tokimori_jobs
        WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_incarnations) i)
            AND (max_running > 0 OR incarnation = ANY (_keyed))
        ORDER BY incarnation FOR NO KEY UPDATE;
        _jobs := ARRAY(SELECT incarnation FROM tokimori_jobs
            WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_going_on) i) ORDER BY incarnation FOR KEY SHARE);
        IF _holding OR cardinality(_parks) > 0 THEN
            _names := ARRAY(
                SELECT semaphore COLLATE "C" FROM tokimori_permits WHERE run_id = ANY (_ids)
                UNION SELECT unnest(tokimori_named(_parks)) ORDER BY 1);
            PERFORM tokimori_lock_semaphores(_names);
        END IF;
        WITH gone AS (
            DELETE FROM tokimori_runs r
            USING unnest(_ids, _incarnations, _owners, _tokens, _states, _dues, _ranks, _failures, _losts, _ended,
                    _started, _pids, _exit_codes, _signals, _errors, _results)
                AS c (id, incarnation, owner, token, state, due, "rank", failures, lost, ended, started, pid, exit_code,
                    signal, error, result)
            WHERE r.id = c.id AND r.state IS NOT DISTINCT FROM 'running' AND r.node_id IS NOT DISTINCT FROM c.owner
                AND r.token = c.token
                AND c.owner <> ALL (_living)
                AND (c.state IN ('succeeded', 'failed', 'cancelled', 'skipped') OR r.cancel IS NOT NULL
                    OR c.incarnation <> ALL (_jobs))
            RETURNING r.id, r.job_id, r.incarnation, r.origin, r.nominal, r.priority, r.lane, r.created, r.payload,
                r.attempt, r.token, r.node_id, r.cancel, r.tzdata, r.parent_id, r.root, c.result, c.state, c.due,
                c."rank", c.failures, c.lost, c.ended,
                coalesce(c.started, r.started) AS started, coalesce(c.pid, r.pid) AS pid, c.exit_code, c.signal,
                c.error, r.concurrency_key
        ), kept AS (
            INSERT INTO tokimori_history (
                id, job_id, incarnation, origin, nominal, due, state, priority, "rank", lane, created, payload, attempt,
                failures, lost, token, node_id, pid, started, ended, exit_code, signal, error, cancel, settled_by,
                settled_token, tzdata, parent_id, root, result, concurrency_key)
            SELECT
                id, job_id, incarnation, origin, nominal, due,
                CASE WHEN state = 'succeeded' THEN state
                    WHEN cancel IS NOT NULL OR state NOT IN ('failed', 'skipped') THEN 'cancelled'
                    ELSE state END,
                priority, "rank", lane, created, payload, attempt, failures, lost, token, node_id, pid, started, ended,
                exit_code, signal,
                CASE WHEN state IN ('succeeded', 'cancelled') THEN error
                    WHEN cancel IS NOT NULL THEN cancel
                    WHEN state NOT IN ('failed', 'skipped') THEN _deleted
                    ELSE error END,
                cancel, _by, token, tzdata, parent_id, root, CASE WHEN state = 'succeeded' THEN result END,
                concurrency_key
            FROM gone RETURNING id
        )
        SELECT coalesce(array_agg(id), '{}') INTO applied FROM kept;
        IF _families THEN
            PERFORM tokimori_bear(applied);
        END IF;
        IF cardinality(_parks) > 0 THEN
            _parked := tokimori_park(_parks, applied, _parked_by);
        END IF;
        IF cardinality(_going_on) > 0 THEN
            WITH moved AS (
                UPDATE tokimori_runs r
                SET state = c.state, due = c.due, "rank" = c."rank", failures = c.failures, lost = c.lost,
                    started = coalesce(c.started, r.started), pid = coalesce(c.pid, r.pid), exit_code = c.exit_code,
                    signal = c.signal, error = c.error, settled_by = _by, settled_token = c.token
                FROM unnest(_ids, _incarnations, _owners, _tokens, _states, _dues, _ranks, _failures, _losts, _started,
                        _pids, _exit_codes, _signals, _errors)
                    AS c (id, incarnation, owner, token, state, due, "rank", failures, lost, started, pid, exit_code,
                        signal, error)
                WHERE r.id = c.id AND r.state IS NOT DISTINCT FROM 'running' AND r.node_id IS NOT DISTINCT FROM c.owner
                AND r.token = c.token
                    AND c.owner <> ALL (_living) AND c.incarnation = ANY (_jobs) AND r.cancel IS NULL
                    AND c.state NOT IN ('succeeded', 'failed', 'cancelled', 'skipped')
                RETURNING r.id
            )
            SELECT coalesce(array_agg(id), '{}') INTO _gone_on FROM moved;
            applied := applied || _gone_on;
        END IF;
        IF _attempts IS NOT NULL THEN
            INSERT INTO tokimori_attempts (
                run_id, number, token, node_id, outcome, pid, started, ended, exit_code, signal, error)
            SELECT a.* FROM jsonb_to_recordset(_attempts) AS a (
                run_id uuid, number integer, token bigint, node_id uuid, outcome text, pid integer, started bigint,
                ended bigint, exit_code integer, signal integer, error text)
            WHERE a.run_id = ANY (applied)
            ON CONFLICT (run_id, number) DO UPDATE SET token = excluded.token, node_id = excluded.node_id,
                outcome = excluded.outcome, pid = excluded.pid, started = excluded.started, ended = excluded.ended,
                exit_code = excluded.exit_code, signal = excluded.signal, error = excluded.error;
        END IF;
        IF cardinality(_out_ids) > 0 THEN
            INSERT INTO tokimori_outputs (run_id, attempt, size, head, tail, settled)
            SELECT o.id, o.attempt, o.size, o.head, o.tail, true
            FROM unnest(_out_ids, _out_attempts, _out_sizes, _out_heads, _out_tails)
                AS o (id, attempt, size, head, tail)
            WHERE o.id = ANY (applied)
            ON CONFLICT (run_id, attempt) DO UPDATE
            SET size = excluded.size, head = excluded.head, tail = excluded.tail, settled = true;
        END IF;
        PERFORM tokimori_wake(CASE WHEN cardinality(applied) = cardinality(_ids) THEN _incarnations ELSE ARRAY(
            SELECT c.incarnation FROM unnest(_ids, _incarnations) AS c (id, incarnation) WHERE c.id = ANY (applied)
        ) END);
        IF cardinality(_keyed) > 0 THEN
            PERFORM tokimori_wake_keys(array_agg(incarnation), array_agg(concurrency_key)) FROM (
                SELECT incarnation, concurrency_key FROM tokimori_history WHERE id = ANY (applied)
                UNION SELECT incarnation, concurrency_key FROM tokimori_runs WHERE id = ANY (_gone_on)) k;
        END IF;
        IF cardinality(_names) > 0 THEN
            WITH back AS (DELETE FROM tokimori_permits WHERE run_id = ANY (applied) RETURNING semaphore)
            SELECT array_agg(semaphore) INTO _freed FROM back;
            served := _freed IS NOT NULL;
            PERFORM tokimori_free(ARRAY(SELECT unnest(_freed) UNION SELECT unnest(tokimori_named(_parked)) ORDER BY 1));
        END IF;
    END IF;
    IF cardinality(applied) < cardinality(_ids) THEN
        already := ARRAY(
            SELECT c.id FROM unnest(_ids, _tokens) AS c (id, token)
            LEFT JOIN tokimori_runs r ON r.id = c.id LEFT JOIN tokimori_history h ON h.id = c.id
            WHERE c.id <> ALL (applied) AND (
                (r.settled_by = _by AND r.settled_token = c.token)
                OR (h.settled_by = _by AND h.settled_token = c.token)));
    END IF;
END $$;

-- As before, for programs of before.
CREATE OR REPLACE FUNCTION tokimori_settle(
    _by uuid, _ids uuid[], _incarnations bigint[], _owners uuid[], _tokens bigint[], _states text[], _dues bigint[],
    _ranks bigint[], _failures integer[], _losts integer[], _ended bigint[], _started bigint[], _pids integer[],
    _exit_codes integer[], _signals integer[], _errors text[], _results text[], _parks bigint[],
    _going_on bigint[], _attempts jsonb,
    _out_ids uuid[], _out_attempts integer[], _out_sizes bigint[], _out_heads bytea[], _out_tails bytea[],
    _deleted text, _parked_by text, OUT applied uuid[], OUT already uuid[])
LANGUAGE sql AS $$
    SELECT applied, already FROM tokimori_settle_16(
        _by, _ids, _incarnations, _owners, _tokens, _states, _dues, _ranks, _failures, _losts, _ended, _started, _pids,
        _exit_codes, _signals, _errors, _results, _parks, _going_on, _attempts, _out_ids, _out_attempts, _out_sizes,
        _out_heads, _out_tails, _deleted, _parked_by)
$$;
