-- Keep a run that has not started from starting; its row.
local run = P .. 'run:' .. ask.id
local state, inc, lane, constraint, key =
    unpack(call('HMGET', run, 'state', 'incarnation', 'lane', 'blocked_on', 'concurrency_key'))
if state == 'waiting' or state == 'ready' or state == 'blocked' then
    exit(ask.id, inc, state, lane, constraint, key)
    call('HSET', run, 'state', 'held', 'error', ask.reason)
    call('HDEL', run, 'blocked_on')
    enter(ask.id, inc, 'held')
    make_way(inc, state, constraint, key)
    serve()
end
return row(run)
