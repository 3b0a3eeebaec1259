-- Enabled jobs whose next moment was reckoned by an older tzdata than this one, the oldest first.
local jobs = {}
for n, member in ipairs(call('ZRANGEBYLEX', P .. 'reckoned', '-', '(' .. ask.tzdata, 'LIMIT', 0, ask.limit)) do
    jobs[n] = row(P .. 'job:' .. unpadded(string.sub(member, -19)))
end
return jobs
