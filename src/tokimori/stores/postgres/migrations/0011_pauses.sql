-- Paused queues. Older nodes see no lanes of theirs, but may claim what they knew before: until they are gone, pause jobs.
-- Nodes since schema 6 work on this one.

CREATE TABLE tokimori_pauses (
    queue text COLLATE "C" PRIMARY KEY, -- *: everything
    since bigint NOT NULL,
    reason text,
    "by" text
);

-- Pause a queue that is not paused. Whoever claims shares the lock: he has ended when this begins, or sees it.
CREATE FUNCTION tokimori_pause(_queue text, _since bigint, _reason text, _by text) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('tokimori_pauses'), 0);
    INSERT INTO tokimori_pauses (queue, since, reason, "by") VALUES (_queue, _since, _reason, _by)
    ON CONFLICT (queue) DO NOTHING;
END $$;

-- Those of the lanes from which may be claimed, until the transaction ends; none while somebody pauses anything: a claim
-- waits for nothing. The pauses are read by a statement of their own, whose snapshot is younger than the lock.
CREATE FUNCTION tokimori_open_lanes(_lanes text[]) RETURNS text[]
LANGUAGE plpgsql AS $$
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

-- As before, without the lanes of paused queues.
CREATE OR REPLACE FUNCTION tokimori_survey(OUT next_due bigint, OUT lanes text[])
LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    _paused text[] := ARRAY(SELECT queue FROM tokimori_pauses);
BEGIN
    next_due := least(
        (SELECT min(next_due) FROM tokimori_jobs WHERE state = 'enabled' AND next_due IS NOT NULL),
        (SELECT min(due) FROM tokimori_runs WHERE state = 'waiting'));
    lanes := ARRAY(
        WITH RECURSIVE walk (lane) AS (
            SELECT min(lane) FROM tokimori_runs WHERE state = 'ready' AND lane IS NOT NULL
            UNION ALL
            SELECT (SELECT min(lane) FROM tokimori_runs WHERE state = 'ready' AND lane > walk.lane)
            FROM walk WHERE walk.lane IS NOT NULL)
        SELECT lane FROM walk
        WHERE lane IS NOT NULL AND split_part(lane, '|', 1) <> ALL (_paused) AND '*' <> ALL (_paused) ORDER BY lane);
END $$;
