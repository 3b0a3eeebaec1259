-- The number below 2^48 from which the ids of a run's children are made, as in `model.ids.child_base`.
CREATE OR REPLACE FUNCTION tokimori_child_base(_parent uuid) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT (sum((get_byte(uuid_send($1), n / 2) >> 4 - n % 2 * 4 & 15) * 31::numeric ^ (31 - n)) % 281474976710597)::bigint
    FROM generate_series(0, 31) AS n
$$;
