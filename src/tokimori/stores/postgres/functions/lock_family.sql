-- The family is locked. False: `_family` is not its version any more (where it is given: to take edges away needs no
-- look at the others).
CREATE OR REPLACE FUNCTION tokimori_lock_family(_family bigint) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    INSERT INTO tokimori_family (one, version) VALUES (true, 0) ON CONFLICT DO NOTHING;
    PERFORM FROM tokimori_family WHERE version = coalesce(_family, version) FOR UPDATE;
    RETURN FOUND;
END $$;
