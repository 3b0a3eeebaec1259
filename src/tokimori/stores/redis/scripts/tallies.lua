-- How the runs of the jobs since an id ended: {job, succeeded, failed, ...}. Of all jobs the newest runs that did not
-- succeed are looked at; the others of a job are counted only.
local broken = call('ZREVRANGEBYLEX', P .. 'broken', '+', '[' .. ask.since, 'LIMIT', 0, ask.most)
local since, failed, others, found = broken[ask.most] or ask.since, {}, {}, {}
for _, id in ipairs(broken) do
    local job, state = unpack(call('HMGET', P .. 'run:' .. id, 'job_id', 'state'))
    local kind = state == 'failed' and failed or others
    kind[job] = (kind[job] or 0) + 1
end
for _, job in ipairs(ask.jobs) do
    local bad, lives = failed[job] or 0, call('ZRANGE', P .. 'tombstones:' .. job, 0, -1)
    lives[#lives + 1] = call('HGET', P .. 'job_ids', job) or nil
    local ended = call('ZLEXCOUNT', P .. 'runs:' .. job, '[' .. since, '+')
    for _, inc in ipairs(lives) do
        ended = ended - call('ZLEXCOUNT', P .. 'live:' .. inc, '[' .. since, '+')
    end
    if ended > 0 then
        found[#found + 1], found[#found + 2], found[#found + 3] = job, ended - bad - (others[job] or 0), bad
    end
end
return found
