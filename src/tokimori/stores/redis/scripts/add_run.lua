-- Keep a requested run, or find the one of the same origin; {row}, or {false, the job's state or false}.
local born = ask.run
local known = call('HGET', P .. 'origins:' .. born.inc, born.origin)
if known then
    return {row(P .. 'run:' .. known)}
end
local state, lane = unpack(call('HMGET', P .. 'job:' .. born.inc, 'state', 'lane'))
if not lane then
    return {false, state}
end
born.lane = lane
born.row[#born.row + 1], born.row[#born.row + 2] = 'lane', lane
add(born)
return {row(P .. 'run:' .. born.id)}
