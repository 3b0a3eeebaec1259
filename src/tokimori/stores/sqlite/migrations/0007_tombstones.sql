-- What is kept of a deleted job while a run of it runs.
-- Nodes since schema 4 work on this one.

ALTER TABLE tokimori_deleted_jobs ADD COLUMN version INTEGER;
ALTER TABLE tokimori_deleted_jobs ADD COLUMN definition TEXT; -- NULL: nothing of it ran
ALTER TABLE tokimori_deleted_jobs ADD COLUMN created INTEGER;
ALTER TABLE tokimori_deleted_jobs ADD COLUMN deleted INTEGER;
