-- How many runs of a job may be active, those that wait included. An older node leaves such jobs to others: it can't read
-- their definitions.
-- Nodes since schema 4 work on this one.

ALTER TABLE tokimori_jobs ADD COLUMN most_active INTEGER; -- NULL: any number
