-- What became of a job's terms, and by which version of the time zone data its moments were reckoned. An older node, which
-- knows none of it, leaves it as it is.
-- Nodes since schema 1 work on this one.

ALTER TABLE tokimori_jobs ADD COLUMN runs_remaining INTEGER;         -- NULL: no limit
ALTER TABLE tokimori_jobs ADD COLUMN tzdata TEXT NOT NULL DEFAULT ''; -- of next_due; empty: unknown
ALTER TABLE tokimori_jobs ADD COLUMN days_off TEXT;                  -- JSON
ALTER TABLE tokimori_runs ADD COLUMN tzdata TEXT;
ALTER TABLE tokimori_history ADD COLUMN tzdata TEXT;

-- A node that starts looks for those which an older version reckoned.
CREATE INDEX tokimori_jobs_tzdata ON tokimori_jobs (tzdata, incarnation)
WHERE state = 'enabled' AND next_due IS NOT NULL;
