-- The nodes that are dead, and still own runs. The index is walked from one owner to the next.
CREATE OR REPLACE FUNCTION tokimori_dead_owners() RETURNS uuid[] LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
BEGIN
    RETURN ARRAY(
        WITH RECURSIVE walk (id) AS (
            (SELECT node_id FROM tokimori_runs WHERE state = 'running' ORDER BY node_id LIMIT 1)
            UNION ALL
            SELECT (SELECT node_id FROM tokimori_runs WHERE state = 'running' AND node_id > walk.id
                ORDER BY node_id LIMIT 1)
            FROM walk WHERE walk.id IS NOT NULL)
        SELECT walk.id FROM walk JOIN tokimori_nodes n ON n.id = walk.id AND n.state = 'dead');
END $$;
