-- What programs of a node hold becomes free, and their places in line are gone. The node's row is locked.
CREATE OR REPLACE FUNCTION tokimori_drop_programs(_node uuid) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _names text[];
BEGIN
    _names := ARRAY(SELECT DISTINCT semaphore FROM tokimori_permits WHERE node_id = _node AND run_id IS NULL);
    IF cardinality(_names) > 0 THEN
        PERFORM tokimori_lock_semaphores(_names);
        DELETE FROM tokimori_permits WHERE node_id = _node AND run_id IS NULL;
        PERFORM tokimori_free(_names);
    END IF;
END $$;
