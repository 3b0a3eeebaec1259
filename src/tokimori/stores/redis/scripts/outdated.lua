-- Enabled jobs whose next moment was reckoned by an older tzdata than this one, the oldest first: those behind `after`.
local jobs = {}
local first = ask.after and '(' .. ask.since .. ' ' .. padded(ask.after) or '-'
for n, member in ipairs(call('ZRANGEBYLEX', P .. 'reckoned', first, '(' .. ask.tzdata, 'LIMIT', 0, ask.limit)) do
    jobs[n] = row(P .. 'job:' .. unpadded(string.sub(member, -19)))
end
return jobs
