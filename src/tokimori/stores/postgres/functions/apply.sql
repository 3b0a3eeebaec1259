-- The plans are written whose job still is what they were made from: their incarnations. `_replaces` cancel earlier runs.
-- `_counted`: some jobs may have only so many active runs; a plan whose runs would be too many is refused, too.
CREATE OR REPLACE FUNCTION tokimori_apply(
    _incarnations bigint[], _versions integer[], _fired_from bigint[], _fired_through bigint[], _next_due bigint[],
    _states text[], _anchors bigint[], _runs_remaining integer[], _tzdata text[], _replaces boolean[],
    {_run_PLANNED arrays},
    _skips jsonb, _reason text, _now bigint, _counted boolean
) RETURNS bigint[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _accepted bigint[];
    _replacing bigint[];
    _full bigint[] := CASE WHEN _counted THEN tokimori_full(_run_incarnation) ELSE '{}' END;
BEGIN
    WITH moved AS (
        UPDATE tokimori_jobs j
        SET fired_through = greatest(j.fired_through, p.fired_through), next_due = p.next_due, state = p.state,
            anchor = p.anchor, runs_remaining = p.runs_remaining, tzdata = p.tzdata
        FROM unnest(_incarnations, _versions, _fired_from, _fired_through, _next_due, _states, _anchors,
                _runs_remaining, _tzdata)
            AS p (incarnation, version, fired_from, fired_through, next_due, state, anchor, runs_remaining, tzdata)
        WHERE j.incarnation = p.incarnation AND j.version = p.version AND j.fired_through = p.fired_from
            AND j.state = 'enabled' AND p.incarnation <> ALL (_full)
        RETURNING j.incarnation
    )
    SELECT coalesce(array_agg(incarnation), '{}') INTO _accepted FROM moved;
    IF true = ANY (_replaces) THEN
        _replacing := ARRAY(
            SELECT p.incarnation FROM unnest(_incarnations, _replaces) AS p (incarnation, replaces)
            WHERE p.replaces AND p.incarnation = ANY (_accepted));
        PERFORM tokimori_cancel(ARRAY(
            SELECT id FROM tokimori_runs WHERE incarnation = ANY (_replacing) AND origin LIKE 's:%' AND state <> 'held'
            ORDER BY origin LIMIT 1000), _reason, _now);
    END IF;
    INSERT INTO tokimori_runs ({PLANNED}, state, created)
    SELECT {r.PLANNED}, CASE WHEN r.due <= _now THEN 'ready' ELSE 'waiting' END, _now
    FROM unnest({_run_PLANNED}) AS r ({PLANNED})
    WHERE cardinality(_accepted) = cardinality(_incarnations) OR r.incarnation = ANY (_accepted)
    ON CONFLICT DO NOTHING;
    IF _skips IS NOT NULL THEN
        PERFORM tokimori_keep_skips((
            SELECT jsonb_agg(s) FROM jsonb_array_elements(_skips) s
            WHERE (s ->> 'incarnation')::bigint = ANY (_accepted)));
    END IF;
    RETURN _accepted;
END $$;
