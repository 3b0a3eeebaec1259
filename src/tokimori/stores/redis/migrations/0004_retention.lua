-- What became of pruned rows, and which jobs are gone, whose rows are still to be pruned, besides the keys of before:
--
--   counts:<job id>             hash   "incarnation day outcome" → how many; the day is midnight UTC, of a run's end or
--                                      of a skip's last moment, the outcome the last state of runs or the reason of skips
--   deleted                     zset   jobs that are gone, all of one score: "incarnation id", padded as in `due`
--
-- Nodes since schema 3 work on this one.
return true
