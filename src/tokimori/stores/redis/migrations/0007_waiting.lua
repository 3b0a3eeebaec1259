-- How many runs of a job may be active, those that wait included: most_active of the hash of a job, absent where it may
-- have any number.
--
-- Nodes since schema 3 work on this one.
return true
