-- What became of pruned rows, and which jobs are gone, whose rows are still to be pruned.
-- Nodes since schema 4 work on this one.

CREATE TABLE tokimori_counts (
    job_id TEXT NOT NULL,
    incarnation INTEGER NOT NULL,
    day INTEGER NOT NULL,  -- midnight UTC: of a run's end, of a skip's last moment
    outcome TEXT NOT NULL, -- the last state of runs, or the reason of skips
    count INTEGER NOT NULL,
    PRIMARY KEY (job_id, incarnation, day, outcome)
) WITHOUT ROWID;

CREATE TABLE tokimori_deleted_jobs (
    incarnation INTEGER PRIMARY KEY,
    job_id TEXT NOT NULL
);
CREATE INDEX tokimori_deleted_jobs_id ON tokimori_deleted_jobs (job_id);
INSERT INTO tokimori_deleted_jobs (incarnation, job_id)
SELECT incarnation, max(job_id) FROM tokimori_history
WHERE incarnation NOT IN (SELECT incarnation FROM tokimori_jobs) GROUP BY incarnation;

CREATE INDEX tokimori_nodes_gone ON tokimori_nodes ("left") WHERE state <> 'alive';
