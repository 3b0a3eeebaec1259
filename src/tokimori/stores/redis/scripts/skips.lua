-- The newest rows of a job's ledger that are skips.
local inc = call('HGET', P .. 'job_ids', ask.id)
return inc and call('ZREVRANGE', P .. 'skips:' .. inc, 0, ask.limit - 1)
