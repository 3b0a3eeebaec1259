-- Keep all jobs or none; the id that another job has, where there is one.
local known = {}
for _, job in ipairs(ask.jobs) do
    known[job.id] = known[job.id] or call('HGET', P .. 'job_ids', job.id) or job.inc
    if known[job.id] ~= job.inc then
        return {'taken', job.id}
    end
end
local edges = {}
for _, edge in ipairs(ask.edges) do
    if call('HEXISTS', P .. 'job_ids', edge[5]) == 0 then
        edges[#edges + 1] = edge
    end
end
if #edges > 0 then
    if not is_family(ask.family) then
        return {'other family', false}
    end
    declare({}, edges)
end
for _, job in ipairs(ask.jobs) do
    if call('HSETNX', P .. 'job_ids', job.id, job.inc) == 1 then
        call('HSET', P .. 'job:' .. job.inc, unpack(job.row))
        call('ZADD', P .. 'jobs', 0, job.id)
        call('ZADD', P .. 'queues', 0, job.queue .. ' ' .. job.id)
        index(job.id, job.inc, false, job.state, job.next_due, job.tzdata)
    end
end
return {'added', false}
