-- How many runs of a job may be active, those that wait included. An older node leaves such jobs to others: it can't read
-- their definitions. NULL: any number.
-- Nodes since schema 3 work on this one.

ALTER TABLE tokimori_jobs ADD COLUMN most_active INT;
