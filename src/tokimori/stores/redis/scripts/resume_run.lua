-- Let a held run wait for its moment again, with `told` only one of these details, which change; its row.
local key = P .. 'run:' .. ask.id
local state, inc, due, details = unpack(call('HMGET', key, 'state', 'incarnation', 'due', 'details'))
if state == 'held' and (not ask.told or ask.told[1] == details) then
    exit(ask.id, inc, state)
    call('HSET', key, 'state', 'waiting', unpack(ask.told and {'details', ask.told[2]} or {}))
    call('HDEL', key, 'error')
    enter(ask.id, inc, 'waiting', nil, due)
end
return row(key)
