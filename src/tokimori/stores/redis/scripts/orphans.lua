-- Running runs of dead nodes, oldest rank first.
local found = {}
for _, node in ipairs(call('SMEMBERS', P .. 'dead_owners')) do
    for _, id in ipairs(call('HKEYS', P .. 'owned:' .. node)) do
        found[#found + 1] = {tonumber(call('HGET', P .. 'run:' .. id, 'rank')), id}
    end
end
table.sort(found, function(a, b)
    return a[1] < b[1] or (a[1] == b[1] and a[2] < b[2])
end)
local ids = {}
for n = 1, math.min(ask.limit, #found) do
    ids[n] = found[n][2]
end
return claimed(ids)
