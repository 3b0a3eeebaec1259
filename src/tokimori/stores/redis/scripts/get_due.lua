local inc = call('HGET', P .. 'job_ids', ask.id)
return inc and due_of(inc)
