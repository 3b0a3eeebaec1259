-- Running runs of dead nodes, oldest rank first.
local found = {}
for _, node in ipairs(call('SMEMBERS', P .. 'dead_owners')) do
    for _, id in ipairs(call('HKEYS', P .. 'owned:' .. node)) do
        local rank, inc = unpack(call('HMGET', P .. 'run:' .. id, 'rank', 'incarnation'))
        found[#found + 1] = {id = id, inc = inc, rank = tonumber(rank)}
    end
end
table.sort(found, sooner)
return claimed({unpack(found, 1, math.min(ask.limit, #found))})
