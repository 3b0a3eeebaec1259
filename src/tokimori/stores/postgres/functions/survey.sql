-- What there is to do: the next moment at which anything is due, and the lanes with ready runs, but those of paused
-- queues. The index is walked from one lane to the next: as many steps as there are lanes, not runs.
CREATE OR REPLACE FUNCTION tokimori_survey(OUT next_due bigint, OUT lanes text[]) LANGUAGE plpgsql STABLE AS $$
#variable_conflict use_column
DECLARE
    _paused text[] := ARRAY(SELECT queue FROM tokimori_pauses);
BEGIN
    next_due := least(
        (SELECT min(next_due) FROM tokimori_jobs WHERE state = 'enabled' AND next_due IS NOT NULL),
        (SELECT min(due) FROM tokimori_runs WHERE state = 'waiting'),
        (SELECT min(wakes) FROM tokimori_semaphores WHERE wakes IS NOT NULL));
    lanes := ARRAY(
        WITH RECURSIVE walk (lane) AS (
            SELECT min(lane) FROM tokimori_runs WHERE state = 'ready' AND lane IS NOT NULL
            UNION ALL
            SELECT (SELECT min(lane) FROM tokimori_runs WHERE state = 'ready' AND lane > walk.lane)
            FROM walk WHERE walk.lane IS NOT NULL)
        SELECT lane FROM walk
        WHERE lane IS NOT NULL AND split_part(lane, '|', 1) <> ALL (_paused) AND '*' <> ALL (_paused) ORDER BY lane);
END $$;
