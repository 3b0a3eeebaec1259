-- Named days off, besides the keys of before:
--
--   calendars                   hash   name → a calendar as JSON
--
-- Nodes since schema 1 work on this one.
return true
