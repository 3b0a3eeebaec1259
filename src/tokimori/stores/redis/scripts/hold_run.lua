-- Keep a run that has not started from starting; its row.
local key = P .. 'run:' .. ask.id
local state, inc, lane = unpack(call('HMGET', key, 'state', 'incarnation', 'lane'))
if state == 'waiting' or state == 'ready' or state == 'blocked' then
    exit(ask.id, inc, state, lane)
    call('HSET', key, 'state', 'held', 'error', ask.reason)
    enter(ask.id, inc, 'held')
    if state == 'ready' then
        wake({[inc] = 1})
    end
end
return row(key)
