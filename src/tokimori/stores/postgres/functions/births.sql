-- The number below 2^48 from which the ids of a run's children are made, as in `model.ids.births_of`.
CREATE OR REPLACE FUNCTION tokimori_births(_parent uuid) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT (sum(get_byte(uuid_send(_parent), n) * 256::numeric ^ (15 - n)) % (2::numeric ^ 48 - 59))::bigint
    FROM generate_series(0, 15) AS n
$$;
