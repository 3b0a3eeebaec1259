-- Paused queues, besides the keys of before:
--
--   pauses                      hash   queue, or * for everything → a pause as JSON
--
-- Older nodes know nothing of them and go on claiming: until they are gone, pause jobs.
-- Nodes since schema 3 work on this one.
return true
