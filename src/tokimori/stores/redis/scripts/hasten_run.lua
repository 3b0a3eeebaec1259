-- Let a run wait until another moment, if it has not begun and has the one that the caller read.
local key = P .. 'run:' .. ask.id
local state, due, rank, inc, lane, constraint, concurrency_key =
    unpack(call('HMGET', key, 'state', 'due', 'rank', 'incarnation', 'lane', 'blocked_on', 'concurrency_key'))
if (state == 'waiting' or state == 'ready' or state == 'blocked') and tonumber(due) == ask.was then
    exit(ask.id, inc, state, lane, constraint, concurrency_key)
    call('HSET', key, 'state', 'waiting', 'due', ask.due, 'nominal', ask.nominal,
        'rank', string.format('%.0f', tonumber(rank) + ask.due - ask.was))
    call('HDEL', key, 'blocked_on')
    enter(ask.id, inc, 'waiting', nil, ask.due)
    make_way(inc, state, constraint, concurrency_key)
    serve()
end
return true
