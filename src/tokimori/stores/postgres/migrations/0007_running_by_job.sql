-- Runs that run are found by their job with this index, by their node with tokimori_runs_owned. Without statistics both
-- looked alike where the node is asked for, and this one, which holds everybody's, was walked: it asks for a job now.
-- Nodes since schema 6 work on this one.

DROP INDEX tokimori_runs_running;
CREATE INDEX tokimori_runs_running ON tokimori_runs (incarnation) WHERE state = 'running' AND incarnation IS NOT NULL;
