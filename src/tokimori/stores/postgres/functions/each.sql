-- So many values: those given, or as many as that of the one that is given for all.
CREATE OR REPLACE FUNCTION tokimori_each(_values anyarray, _many integer) RETURNS anyarray LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN cardinality(_values) = 1 THEN array_fill(_values[1], ARRAY[_many]) ELSE _values END
$$;
