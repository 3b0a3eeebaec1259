-- Make a semaphore, or change its limit and its rate; the heaviest in its line, where that is more.
local heaviest = tonumber(call('ZREVRANGE', P .. 'heavy:' .. ask.name, 0, 0, 'WITHSCORES')[2] or 1)
if heaviest > ask.limit or (ask.rate and heaviest > tonumber(string.match(ask.rate, '^%d+'))) then
    return heaviest
end
local semaphore = P .. 'semaphore:' .. ask.name
if call('EXISTS', semaphore) == 0 then
    make_semaphore(ask.name, ask.limit, 0)
end
call('HDEL', semaphore, 'rate', 'turn', 'kept', 'woken', 'until')
call('HSET', semaphore, 'limit', ask.limit, unpack(ask.rate and {'rate', ask.rate} or {}))
call('ZREM', P .. 'wakes', ask.name)
local queue = string.match(ask.name, '^queue:(.+)$')
if queue then
    call(ask.rate and 'SADD' or 'SREM', P .. 'paced', queue)
end
serve_semaphore(ask.name)
return 0
