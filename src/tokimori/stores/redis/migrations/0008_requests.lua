-- Requests that share a key with others, besides the keys of before:
--
--   newest:<inc>                hash   what the origins of a key begin with → its newest run
--   request:<id>                the run that took over what a request asked for; for an hour
--
-- Nodes since schema 3 work on this one.
return true
