-- A job takes the place of another, if that still is what the caller read: 'replaced', 'begun' where not all of its runs
-- have followed yet, 'other job', 'other family', or 'moving' where an earlier change has to be done first. `_edges`
-- where they change, `_family` where they were checked against one. What the old definition wanted goes to the next in
-- line. `_forced_lane` is that of forced runs of a job that stays stopped.
CREATE OR REPLACE FUNCTION tokimori_replace_job(
    _old_version integer, _old_state text, _old_fired_through bigint, _id text, _incarnation bigint, _version integer,
    _definition text, _state text, _reason text, _by text, _created bigint, _updated bigint, _anchor bigint,
    _fired_through bigint, _next_due bigint, _runs_remaining integer, _tzdata text, _days_off text,
    _max_running integer, _lane text, _most_active integer, _semaphores text, _max_per_key integer, _priority integer,
    _head_start bigint, _concurrency_key text, _queue text, _skips jsonb, _forced_lane text, _edges jsonb,
    _family bigint, _priority_was integer
) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
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
    IF coalesce(_forced_lane, _priority_was::text) IS NOT NULL AND EXISTS (SELECT FROM tokimori_moves WHERE incarnation = _incarnation) THEN
        RETURN 'moving';  -- not all that have a lane are forced, or have the old priority
    END IF;
    IF _edges IS NOT NULL THEN
        PERFORM tokimori_declare(ARRAY[_id], _edges, _family);
    END IF;
    PERFORM tokimori_begin_move(_incarnation, _forced_lane, NULL, _updated, _priority_was);
    PERFORM tokimori_lock_semaphores(ARRAY(
        SELECT unnest(tokimori_lined(ARRAY[_incarnation]))
        UNION SELECT (w ->> 0) COLLATE "C" FROM jsonb_array_elements(_semaphores::jsonb) w));
    UPDATE tokimori_jobs SET
        version = _version, definition = _definition, state = _state, reason = _reason, "by" = _by, updated = _updated,
        created = _created, anchor = _anchor, fired_through = _fired_through, next_due = _next_due,
        max_running = _max_running, lane = _lane, runs_remaining = _runs_remaining, tzdata = _tzdata,
        days_off = _days_off, semaphores = _semaphores, max_per_key = _max_per_key, most_active = _most_active,
        priority = _priority, head_start = _head_start, concurrency_key = _concurrency_key, queue = _queue
    WHERE incarnation = _incarnation;
    IF _fired_through < _old_fired_through THEN
        DELETE FROM tokimori_skips WHERE incarnation = _incarnation AND first > _fired_through;
        UPDATE tokimori_runs SET state = 'waiting'
        WHERE incarnation = _incarnation AND state = 'ready' AND due > _updated AND origin NOT LIKE 'c:%'
            AND (origin LIKE 's:%' OR due > created);
    END IF;
    PERFORM tokimori_keep_skips(_skips);
    -- Nothing that runs settles by the old limit once this is done.
    PERFORM FROM tokimori_runs WHERE state = 'running' AND incarnation = _incarnation ORDER BY id FOR UPDATE;
    RETURN CASE WHEN tokimori_move_runs(_incarnation) THEN 'replaced' ELSE 'begun' END;
END $$;
