-- Add a living node; one that is known says its labels and places anew.
local key = P .. 'node:' .. ask.id
if call('HSET', key, 'labels', cjson.encode(ask.labels), 'concurrency', ask.places) > 0 then
    call('HSET', key, unpack(ask.row))
    call('ZADD', P .. 'alive', ask.started, ask.id)
end
return true
