-- Forget a semaphore, unless units are held or waited for; whether it is gone.
local line = line_up(ask.name)
if not line then
    return true
end
if #line.heads > 0 or line.program or call('EXISTS', P .. 'holders:' .. ask.name) == 1 then
    return false
end
local granted = call('HGET', P .. 'semaphore:' .. ask.name, 'granted')
call('SET', P .. 'tokens', math.max(granted, call('GET', P .. 'tokens') or 0))
call('DEL', P .. 'semaphore:' .. ask.name, P .. 'heavy:' .. ask.name, P .. 'taken:' .. ask.name)
call('ZREM', P .. 'wakes', ask.name)
call('ZREM', P .. 'semaphores', ask.name)
call('ZREM', P .. 'awaited', ask.name)
return true
