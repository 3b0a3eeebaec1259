-- Sets of functions are dropped, but never the caller's own: those made for schemas older than `_oldest`, which a
-- migration has shut out; and those which no program has opened since `_before` and no row of a node names. Of the latter
-- a set of which somebody else owns functions stays: only its owner can drop it; the former fails. How many were dropped. Whoever still calls one
-- of them installs it again, if its schema is not shut out. The caller holds the lock of migrations.
CREATE OR REPLACE FUNCTION tokimori_drop_function_sets(_own text, _oldest integer, _before bigint, _limit integer)
RETURNS integer LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _dropped integer := 0;
    _set record;
BEGIN
    FOR _set IN
        SELECT s.digest, string_agg(p.oid::regprocedure::text, ', ') AS functions
        FROM tokimori_function_sets s
        JOIN pg_class c ON c.oid = 'tokimori_function_sets'::regclass
        LEFT JOIN pg_proc p ON p.pronamespace = c.relnamespace
            AND p.proname ~ ('^tokimori_[a-z]+(_[a-z]+)*_' || s.digest || '$')
        WHERE s.digest <> _own AND (s.schema < _oldest OR s.used < _before)
        GROUP BY s.digest, s.schema
        HAVING s.schema < _oldest OR (
            bool_and(p.oid IS NULL OR pg_has_role(p.proowner, 'USAGE'))
            AND NOT EXISTS (SELECT FROM tokimori_nodes WHERE functions = s.digest))
        LIMIT _limit
    LOOP
        EXECUTE coalesce('DROP FUNCTION ' || _set.functions, 'SELECT 1');
        DELETE FROM tokimori_function_sets WHERE digest = _set.digest;
        _dropped := _dropped + 1;
    END LOOP;
    RETURN _dropped;
END $$;
