-- Let a run be due earlier, if it still waits until the moment that the caller read.
local key = P .. 'run:' .. ask.id
local state, due, rank = unpack(call('HMGET', key, 'state', 'due', 'rank'))
if state == 'waiting' and tonumber(due) == ask.was then
    local ours = string.format('%.0f', tonumber(rank) + ask.due - ask.was)
    call('HSET', key, 'due', ask.due, 'nominal', ask.nominal, 'rank', ours)
    call('ZADD', P .. 'waiting', ask.due, ask.id)
end
return true
