-- Let a held run wait for its moment again; its row.
local key = P .. 'run:' .. ask.id
local state, inc, due = unpack(call('HMGET', key, 'state', 'incarnation', 'due'))
if state == 'held' then
    exit(ask.id, inc, state)
    call('HSET', key, 'state', 'waiting')
    call('HDEL', key, 'error')
    enter(ask.id, inc, 'waiting', nil, due)
end
return row(key)
