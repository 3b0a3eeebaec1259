-- Jobs that are gone, {incarnation, id} each, those after one.
local from = ask.after and '(' .. padded(ask.after) .. ' ~' or '-'
local jobs = {}
for n, member in ipairs(call('ZRANGEBYLEX', P .. 'deleted', from, '+', 'LIMIT', 0, ask.limit)) do
    jobs[n] = {unpadded(string.sub(member, 1, 19)), string.sub(member, 21)}
end
return jobs
