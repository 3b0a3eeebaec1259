-- Jobs by id, after one of them.
local jobs = {}
local from = ask.after and '(' .. ask.after or '-'
for n, id in ipairs(call('ZRANGEBYLEX', P .. ask.index, from, '+', 'LIMIT', 0, ask.limit)) do
    jobs[n] = row(P .. 'job:' .. call('HGET', P .. 'job_ids', id))
end
return jobs
