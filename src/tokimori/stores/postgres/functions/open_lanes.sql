-- The lanes among these from which runs may be claimed, until the transaction ends; none while somebody pauses
-- anything: a claim waits for nothing. The pauses are read by a statement of their own, whose snapshot is younger than
-- the lock.
CREATE OR REPLACE FUNCTION tokimori_open_lanes(_lanes text[]) RETURNS text[] LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _paused text[];
BEGIN
    IF NOT pg_try_advisory_xact_lock_shared(hashtext('tokimori_pauses'), 0) THEN
        RETURN '{}';
    END IF;
    _paused := ARRAY(SELECT queue FROM tokimori_pauses);
    IF cardinality(_paused) = 0 THEN
        RETURN _lanes;
    END IF;
    RETURN ARRAY(
        SELECT lane FROM unnest(_lanes) lane
        WHERE split_part(lane, '|', 1) <> ALL (_paused) AND '*' <> ALL (_paused));
END $$;
