-- The node goes with its programs, unless it owns runs; whether it is gone.
CREATE OR REPLACE FUNCTION tokimori_leave(_node uuid, _now bigint) RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    PERFORM FROM tokimori_nodes WHERE id = _node FOR UPDATE;
    UPDATE tokimori_nodes SET state = 'left', "left" = _now
    WHERE id = _node AND state = 'alive'
        AND NOT EXISTS (SELECT FROM tokimori_runs WHERE state = 'running' AND node_id = _node);
    IF FOUND THEN
        PERFORM tokimori_drop_programs(_node);
        DELETE FROM tokimori_nodes WHERE id = _node AND concurrency = 0;
    END IF;
    RETURN NOT EXISTS (SELECT FROM tokimori_nodes WHERE id = _node AND state = 'alive');
END $$;
