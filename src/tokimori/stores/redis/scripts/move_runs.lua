-- Some more runs of a job follow its change; whether all have.
local unfinished = call('HGET', P .. 'moves', ask.inc)
local done = not unfinished or move_runs(ask.inc, cmsgpack.unpack(unfinished))
serve()
return done
