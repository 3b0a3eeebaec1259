-- Add a living node, unless it is known.
local key = P .. 'node:' .. ask.id
if call('EXISTS', key) == 0 then
    call('HSET', key, unpack(ask.row))
    call('ZADD', P .. 'alive', ask.started, ask.id)
end
return true
