-- Make waiting runs ready whose moment has come; how many.
local ids = call('ZRANGEBYSCORE', P .. 'waiting', '-inf', ask.now, 'LIMIT', ask.skip, ask.limit)
for _, id in ipairs(ids) do
    local key = P .. 'run:' .. id
    local lane, rank = unpack(call('HMGET', key, 'lane', 'rank'))
    exit(id, nil, 'waiting')
    call('HSET', key, 'state', 'ready')
    enter(id, nil, 'ready', lane, nil, rank)
end
return #ids
