-- What is kept of a deleted job while a run of it runs.
-- Nodes since schema 3 work on this one.

ALTER TABLE tokimori_deleted_jobs
    ADD COLUMN version INTEGER,
    ADD COLUMN definition LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, -- NULL: nothing of it ran
    ADD COLUMN created BIGINT,
    ADD COLUMN deleted BIGINT;
