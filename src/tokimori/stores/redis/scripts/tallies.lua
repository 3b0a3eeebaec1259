-- How the runs of the jobs since an id ended: {job, succeeded, failed, ...}. Of all jobs the newest runs that did not
-- succeed are looked at, and the oldest that live; the others of a job are counted only.
local broken = call('ZREVRANGEBYLEX', P .. 'broken', '+', '[' .. ask.since, 'LIMIT', 0, ask.most)
local since, failed, others, earlier = broken[ask.most] or ask.since, {}, {}, {}
for _, id in ipairs(broken) do
    local job, state = unpack(call('HMGET', P .. 'run:' .. id, 'job_id', 'state'))
    local kind = state == 'failed' and failed or others
    kind[job] = (kind[job] or 0) + 1
end
for _, id in ipairs(call('ZRANGEBYLEX', P .. 'live', '-', '(' .. since, 'LIMIT', 0, ask.most)) do
    local inc = call('HGET', P .. 'run:' .. id, 'incarnation')
    earlier[inc] = (earlier[inc] or 0) + 1
end
local found = {}
for _, job in ipairs(ask.jobs) do
    local inc, bad = call('HGET', P .. 'job_ids', job) or '', failed[job] or 0
    local live = call('SCARD', P .. 'live:' .. inc) - (earlier[inc] or 0)
    local ended = call('ZLEXCOUNT', P .. 'runs:' .. job, '[' .. since, '+') - live
    if ended > 0 then
        found[#found + 1], found[#found + 2] = job, math.max(0, ended - bad - (others[job] or 0))
        found[#found + 1] = bad
    end
end
return found
