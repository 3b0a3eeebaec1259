-- The runs of a job are to follow its change, which comes after this; those of an earlier change begin anew.
CREATE OR REPLACE FUNCTION tokimori_begin_move(
    _incarnation bigint, _forced_lane text, _reason text, _since bigint, _priority_was integer DEFAULT NULL)
RETURNS void LANGUAGE sql AS $$
    INSERT INTO tokimori_moves AS m (incarnation, origin, woken, forced_lane, names, reason, since, priority_was)
    SELECT _incarnation, '', count(*), _forced_lane, tokimori_named(ARRAY[_incarnation]), _reason, _since, _priority_was
    FROM tokimori_runs WHERE state = 'running' AND incarnation = _incarnation
    ON CONFLICT (incarnation) DO UPDATE
    SET (origin, woken, forced_lane, names, reason, since, priority_was) = ROW (
        '', excluded.woken, excluded.forced_lane, m.names || excluded.names, excluded.reason, excluded.since,
        coalesce(excluded.priority_was, m.priority_was))
$$;
