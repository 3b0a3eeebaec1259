-- Requested runs are kept whose jobs exist and are not paused or full: each that was added, with its lane.
CREATE OR REPLACE FUNCTION tokimori_add_runs({_BIRTH arrays - lane}) RETURNS TABLE (added uuid, added_lane text)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _added uuid[];
BEGIN
    IF cardinality(tokimori_full(_incarnation)) > 0 THEN
        RETURN;
    END IF;
    PERFORM FROM tokimori_jobs WHERE incarnation IN (SELECT DISTINCT i FROM unnest(_incarnation) i)
    ORDER BY incarnation FOR KEY SHARE;
    WITH born AS (
        INSERT INTO tokimori_runs ({BIRTH - lane}, lane)
        SELECT {r.BIRTH - lane}, j.lane
        FROM unnest({_BIRTH - lane}) AS r ({BIRTH - lane})
        JOIN tokimori_jobs j ON j.incarnation = r.incarnation AND j.id = r.job_id
        WHERE j.lane IS NOT NULL
        ORDER BY r.incarnation, r.origin
        ON CONFLICT DO NOTHING RETURNING id
    )
    SELECT array_agg(id) INTO _added FROM born;
    -- Read after the insert, which waits for a settle that moves a run of the same origin to the history.
    DELETE FROM tokimori_runs r USING tokimori_history h
    WHERE r.id = ANY (_added) AND h.incarnation = r.incarnation AND h.origin = r.origin AND h.origin NOT LIKE 's:%';
    PERFORM tokimori_note_expiries(_id, _details);
    RETURN QUERY SELECT id, lane FROM tokimori_runs WHERE id = ANY (_added);
END $$;
