-- Living nodes first, then those that went, newest first.
local nodes = {}
for _, index in ipairs({'alive', 'gone'}) do
    if #nodes < ask.limit then
        for _, id in ipairs(call('ZREVRANGE', P .. index, 0, ask.limit - #nodes - 1)) do
            nodes[#nodes + 1] = row(P .. 'node:' .. id)
        end
    end
end
return nodes
