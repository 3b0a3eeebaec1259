-- What is kept of a deleted job while a run of it runs, besides the keys of before:
--
--   deleted:<incarnation>       hash   version, definition, created, deleted; only where something of the job ran
--   tombstones:<job id>         zset   the incarnations of these, by when they were deleted
--
-- Nodes since schema 3 work on this one.
return true
