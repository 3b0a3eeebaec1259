-- The store's time, as it goes on within a transaction: behind a lock it is later than whatever was written before.
CREATE OR REPLACE FUNCTION tokimori_now() RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
END $$;
