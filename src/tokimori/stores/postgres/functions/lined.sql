-- The semaphores in whose lines runs of these jobs may stand: those that they state, and that they stated before a move.
CREATE OR REPLACE FUNCTION tokimori_lined(_jobs bigint[]) RETURNS text[] LANGUAGE sql STABLE AS $$
    SELECT ARRAY(
        SELECT unnest(tokimori_named(_jobs)) COLLATE "C"
        UNION SELECT unnest(names) COLLATE "C" FROM tokimori_moves WHERE incarnation = ANY (_jobs) ORDER BY 1)
$$;
