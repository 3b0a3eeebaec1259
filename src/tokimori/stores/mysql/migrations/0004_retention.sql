-- What became of pruned rows, and which jobs are gone, whose rows are still to be pruned.
-- Nodes since schema 3 work on this one.

CREATE TABLE tokimori_counts (
    job_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    incarnation BIGINT NOT NULL,
    day BIGINT NOT NULL, -- midnight UTC: of a run's end, of a skip's last moment
    outcome VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- the last state of runs, or the reason of skips
    count BIGINT NOT NULL,
    PRIMARY KEY (job_id, incarnation, day, outcome)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;

CREATE TABLE tokimori_deleted_jobs (
    incarnation BIGINT NOT NULL PRIMARY KEY,
    job_id VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    KEY tokimori_deleted_jobs_id (job_id)
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;
INSERT INTO tokimori_deleted_jobs (incarnation, job_id)
SELECT incarnation, MAX(job_id) FROM tokimori_history
WHERE incarnation NOT IN (SELECT incarnation FROM tokimori_jobs) GROUP BY incarnation;

ALTER TABLE tokimori_nodes ADD KEY tokimori_nodes_gone ("left");
