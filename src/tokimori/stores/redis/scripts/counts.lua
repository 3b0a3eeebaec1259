-- What is counted of a job's pruned rows, and the newest skips that are kept of all that had its id.
local skips, lives = {}, {}
local inc = call('HGET', P .. 'job_ids', ask.job)
if inc then
    lives[1] = inc
end
for _, member in ipairs(call('ZRANGE', P .. 'deleted', 0, -1)) do
    if string.sub(member, 21) == ask.job then
        lives[#lives + 1] = unpadded(string.sub(member, 1, 19))
    end
end
for _, life in ipairs(lives) do
    for _, text in ipairs(call('ZREVRANGE', P .. 'skips:' .. life, 0, ask.most)) do
        skips[#skips + 1] = text
    end
end
return {call('HGETALL', P .. 'counts:' .. ask.job), skips}
