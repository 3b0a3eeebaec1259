-- Let a held run wait for its moment again; its row. `details`: only if it has the first of these, and it gets the second.
local key = P .. 'run:' .. ask.id
local state, inc, due, details = unpack(call('HMGET', key, 'state', 'incarnation', 'due', 'details'))
if state == 'held' and (not ask.details or ask.details[1] == details) then
    exit(ask.id, inc, state)
    call('HSET', key, 'state', 'waiting', unpack(ask.details and {'details', ask.details[2]} or {}))
    call('HDEL', key, 'error')
    enter(ask.id, inc, 'waiting', nil, due)
end
return row(key)
