-- Forget nodes that went before a moment and own nothing; how many. The ends of the last day stay in their stream.
local pruned = 0
for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'gone', '-inf', '(' .. ask.before, 'LIMIT', 0, ask.limit)) do
    if call('EXISTS', P .. 'owned:' .. id) == 0 then
        call('DEL', P .. 'node:' .. id)
        call('ZREM', P .. 'gone', id)
        pruned = pruned + 1
    end
end
local now = call('TIME')
call('XTRIM', P .. 'ends', 'MINID', '~', string.format('%.0f', (now[1] - 86400) * 1000), 'LIMIT', 0)
return pruned
