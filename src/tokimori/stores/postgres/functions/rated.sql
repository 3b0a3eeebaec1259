-- Of these semaphores, which are locked, those with a rate: how many units it has left, whether it lets but one take them
-- at a time (`once`), the lane that alone may take some (`kept`), and whether turns are under way. NULL: none has one.
CREATE OR REPLACE FUNCTION tokimori_rated(_names text[]) RETURNS jsonb LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now bigint := tokimori_now();
BEGIN
    PERFORM tokimori_cut(name, _now) FROM tokimori_semaphores WHERE name = ANY (_names) AND rate IS NOT NULL;
    RETURN (
        SELECT jsonb_object_agg(s.name, jsonb_build_object(
            'left', CASE WHEN w.spaced > _now THEN 0 ELSE greatest(w.units - w.used, 0) END, 'once', w.every > 0,
            'rate', s.rate, 'kept', CASE WHEN s.kept AND _now < s.until THEN s.turn END,
            'turns', s.kept OR s.woken > 0))
        FROM tokimori_semaphores s CROSS JOIN LATERAL tokimori_window(s.name, s.rate, _now) w
        WHERE s.name = ANY (_names) AND s.rate IS NOT NULL);
END $$;
