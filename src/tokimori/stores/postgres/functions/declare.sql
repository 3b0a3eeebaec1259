-- The edges that jobs declare now replace those from before. False: they were checked against another family.
CREATE OR REPLACE FUNCTION tokimori_declare(_jobs text[], _edges jsonb, _family bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF NOT tokimori_lock_family(_family) THEN
        RETURN false;
    END IF;
    UPDATE tokimori_family SET version = version + 1;
    DELETE FROM tokimori_edges WHERE declared_by = ANY (_jobs);
    INSERT INTO tokimori_edges (parent, child, "on", joins, declared_by)
    SELECT parent, child, "on", joins, declared_by
    FROM jsonb_to_recordset(_edges) AS e (parent text, child text, "on" text, joins integer, declared_by text);
    RETURN true;
END $$;
