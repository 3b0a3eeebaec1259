-- Where a job may have only so many active runs: a plan whose runs would be too many is refused like one whose job
-- changed.
CREATE OR REPLACE FUNCTION tokimori_apply_counted(
    _incarnations bigint[], _versions integer[], _fired_from bigint[], _fired_through bigint[], _next_due bigint[],
    _states text[], _anchors bigint[], _runs_remaining integer[], _tzdata text[], _replaces boolean[],
    {_run_PLANNED arrays},
    _skips jsonb, _reason text, _now bigint
) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    _full bigint[] := tokimori_full(_run_incarnation);
BEGIN
    RETURN tokimori_apply(
        _incarnations, _versions,
        ARRAY(SELECT CASE WHEN p.incarnation = ANY (_full) THEN NULL ELSE p.fired_from END
            FROM unnest(_incarnations, _fired_from) WITH ORDINALITY AS p (incarnation, fired_from, place)
            ORDER BY p.place),
        _fired_through, _next_due, _states, _anchors, _runs_remaining, _tzdata, _replaces,
        {_run_PLANNED}, _skips, _reason, _now);
END $$;
