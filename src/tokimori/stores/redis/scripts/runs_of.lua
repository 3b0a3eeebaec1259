-- The runs of a job's life that have these origins: rows.
local found = {}
for _, origin in ipairs(ask.origins) do
    local id = call('HGET', P .. 'origins:' .. ask.inc, origin)
    found[#found + 1] = id and row(P .. 'run:' .. id) or nil
end
return found
