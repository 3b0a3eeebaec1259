local inc = call('HGET', P .. 'job_ids', ask.id)
return inc and row(P .. 'job:' .. inc)
