-- Queues by name, from that one on, and how many jobs are in each. Two words stand apart by a space, which is in none.
local queues = {}
local from = '[' .. ask.first
for n = 1, ask.limit do
    local queue = string.match(call('ZRANGEBYLEX', P .. 'queues', from, '+', 'LIMIT', 0, 1)[1] or '', '^%S+')
    if not queue then
        break
    end
    from = '(' .. queue .. '!'
    queues[n] = {queue, call('ZLEXCOUNT', P .. 'queues', '[' .. queue .. ' ', from)}
end
return queues
