-- A program gives its units back, or leaves the line; whether it was there.
CREATE OR REPLACE FUNCTION tokimori_release(_id text, _node uuid) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _name text;
BEGIN
    SELECT semaphore INTO _name FROM tokimori_permits WHERE id = _id AND node_id = _node AND run_id IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM tokimori_lock_semaphores(ARRAY[_name]);
    DELETE FROM tokimori_permits WHERE id = _id;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM tokimori_free(ARRAY[_name]);
    RETURN true;
END $$;
