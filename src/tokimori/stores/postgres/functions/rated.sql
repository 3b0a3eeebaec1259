-- Of these semaphores, which are locked, those with a rate: how many units it has left of how many, whether it lets but one
-- take them at a time (`once`), and the lane that alone may take some (`kept`).
CREATE OR REPLACE FUNCTION tokimori_rated(_names text[])
RETURNS TABLE (name text, rate text, units bigint, "left" bigint, once boolean, kept text) LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _now bigint := tokimori_now();
BEGIN
    PERFORM tokimori_cut(name, _now) FROM tokimori_semaphores WHERE name = ANY (_names) AND rate IS NOT NULL;
    RETURN QUERY
    SELECT s.name, s.rate, w.units, CASE WHEN w.spaced > _now THEN 0 ELSE greatest(w.units - w.used, 0) END, w.every > 0,
        CASE WHEN s.kept AND _now < s.until THEN s.turn END
    FROM tokimori_semaphores s CROSS JOIN LATERAL tokimori_window(s.name, s.rate, _now) w
    WHERE s.name = ANY (_names) AND s.rate IS NOT NULL;
END $$;
