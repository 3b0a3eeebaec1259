-- A page of a job's runs, newest first, of which those that ended are counted: {the last id or false, "day state",
-- number, …}.
local ids = call('ZREVRANGEBYLEX', P .. 'runs:' .. ask.job, ask.before and '(' .. ask.before or '+', '-',
    'LIMIT', 0, ask.most)
local tally = {}
for _, id in ipairs(ids) do
    local state, ended = unpack(call('HMGET', P .. 'run:' .. id, 'state', 'ended'))
    if ENDS[state] then
        local key = string.format('%.0f', ended - ended % 86400000000) .. ' ' .. state
        tally[key] = (tally[key] or 0) + 1
    end
end
local answer = {ids[#ids] or false}
for key, number in pairs(tally) do
    answer[#answer + 1] = key
    answer[#answer + 1] = number
end
return answer
