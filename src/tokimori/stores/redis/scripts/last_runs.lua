-- The newest runs of each of the jobs, at most `limit` of each: rows.
local found = {}
for _, job in ipairs(ask.jobs) do
    for _, id in ipairs(call('ZREVRANGEBYLEX', P .. 'runs:' .. job, '+', '-', 'LIMIT', 0, ask.limit)) do
        found[#found + 1] = row(P .. 'run:' .. id) or nil
    end
end
return found
