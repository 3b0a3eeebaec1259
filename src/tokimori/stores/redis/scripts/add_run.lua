-- Keep a requested run, or find the one of the same origin: {its row}, {false, the job's state, the lane that it got}.
local born = ask.run
local known = call('HGET', P .. 'origins:' .. born.inc, born.origin)
if known then
    return {row(P .. 'run:' .. known), false, false}
end
local state, lane = unpack(call('HMGET', P .. 'job:' .. born.inc, 'state', 'lane'))
if not lane then
    return {false, state, false}
end
born.lane = lane
born.row[#born.row + 1], born.row[#born.row + 2] = 'lane', lane
add(born)
return {false, state, lane}
