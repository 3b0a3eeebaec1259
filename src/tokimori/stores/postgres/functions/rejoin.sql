-- Runs of these jobs that stand in the lines of keys and semaphores are ready again: their claim finds them the line of
-- today. Gates and semaphores are locked.
CREATE OR REPLACE FUNCTION tokimori_rejoin(_jobs bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE tokimori_runs SET state = 'ready', blocked_on = NULL
    WHERE incarnation = ANY (_jobs) AND state = 'blocked' AND blocked_on IS NOT NULL;
END $$;
