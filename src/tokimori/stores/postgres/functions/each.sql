-- The values. A single one stands for all: it is repeated so many times.
CREATE OR REPLACE FUNCTION tokimori_each(_values anyarray, _many integer) RETURNS anyarray LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN cardinality(_values) = 1 THEN array_fill(_values[1], ARRAY[_many]) ELSE _values END
$$;
