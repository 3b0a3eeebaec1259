-- Keep a run that has not begun from it, or let it wait until `due` if it has the moment that the caller read; its row.
local run = P .. 'run:' .. ask.id
local state, due, rank, inc, lane, constraint, key =
    unpack(call('HMGET', run, 'state', 'due', 'rank', 'incarnation', 'lane', 'blocked_on', 'concurrency_key'))
if (state == 'waiting' or state == 'ready' or state == 'blocked') and (not ask.was or tonumber(due) == ask.was) then
    exit(ask.id, inc, state, lane, constraint, key)
    call('HDEL', run, 'blocked_on')
    if ask.was then
        call('HSET', run, 'state', 'waiting', 'due', ask.due, 'nominal', ask.nominal,
            'rank', string.format('%.0f', tonumber(rank) + ask.due - ask.was))
    else
        call('HSET', run, 'state', 'held', 'error', ask.reason)
    end
    enter(ask.id, inc, ask.was and 'waiting' or 'held', nil, ask.due)
    make_way(inc, state, constraint, key)
    serve()
end
return row(run)
