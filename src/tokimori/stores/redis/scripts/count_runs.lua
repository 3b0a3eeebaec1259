-- A page of a job's finished runs, counted: {the last id that was looked at or false, "day state", number, …}.
local tally, last = {}, false
for _, id in ipairs(call('ZRANGEBYLEX', P .. 'runs:' .. ask.job, ask.after and '(' .. ask.after or '-', '+',
    'LIMIT', 0, ask.most)) do
    last = id
    local state, ended = unpack(call('HMGET', P .. 'run:' .. id, 'state', 'ended'))
    if ENDS[state] then
        local key = string.format('%.0f', ended - ended % 86400000000) .. ' ' .. state
        tally[key] = (tally[key] or 0) + 1
    end
end
local answer = {last}
for key, number in pairs(tally) do
    answer[#answer + 1] = key
    answer[#answer + 1] = number
end
return answer
