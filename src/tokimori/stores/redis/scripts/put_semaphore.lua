-- Make a semaphore, or change its limit; the heaviest in its line, where that is more.
local heaviest = tonumber(call('ZREVRANGE', P .. 'heavy:' .. ask.name, 0, 0, 'WITHSCORES')[2] or 1)
if heaviest > ask.limit then
    return heaviest
end
if semaphore_of(ask.name) then
    call('HSET', P .. 'semaphore:' .. ask.name, 'limit', ask.limit)
else
    make_semaphore(ask.name, ask.limit, 0)
end
serve_semaphore(ask.name)
return 0
