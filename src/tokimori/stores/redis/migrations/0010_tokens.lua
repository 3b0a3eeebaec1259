-- Tokens, besides the keys of before:
--
--   tokens                      the newest token of programs' grants of all semaphores that were deleted: those of one that
--                               is made anew begin above it
--   run:<id>                    hash   also holds_token, the token of the claim with which it got what it holds
--
-- Nodes since schema 3 work on this one.
return true
