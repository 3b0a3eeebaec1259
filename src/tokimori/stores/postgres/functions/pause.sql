-- A queue is paused, if it is not yet. Whoever claims shares the lock: it has ended when this begins, or sees the
-- pause.
CREATE OR REPLACE FUNCTION tokimori_pause(_queue text, _since bigint, _reason text, _by text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('tokimori_pauses'), 0);
    INSERT INTO tokimori_pauses (queue, since, reason, "by") VALUES (_queue, _since, _reason, _by)
    ON CONFLICT (queue) DO NOTHING;
END $$;
