-- The number below 2^48 from which the ids of a run's children are made, as in `model.ids.child_base`.
CREATE OR REPLACE FUNCTION tokimori_child_base(_parent uuid) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT (sum(get_byte(uuid_send(_parent), n) * 256::numeric ^ (15 - n)) % (2::numeric ^ 48 - 59))::bigint
    FROM generate_series(0, 15) AS n
$$;
