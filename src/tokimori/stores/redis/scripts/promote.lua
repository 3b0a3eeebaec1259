-- Make waiting runs ready whose moment has come, and serve the lines that go on because of a rate; how many.
local ids = call('ZRANGEBYSCORE', P .. 'waiting', '-inf', ask.now, 'LIMIT', ask.skip, ask.limit)
for _, id in ipairs(ids) do
    local key = P .. 'run:' .. id
    local lane, rank = unpack(call('HMGET', key, 'lane', 'rank'))
    exit(id, nil, 'waiting')
    call('HSET', key, 'state', 'ready')
    enter(id, nil, 'ready', lane, nil, rank)
end
local names = call('ZRANGEBYSCORE', P .. 'wakes', '-inf', ask.now, 'LIMIT', 0, 100)
flush()
for _, name in ipairs(names) do
    serve_semaphore(name)
end
return #ids + #names
