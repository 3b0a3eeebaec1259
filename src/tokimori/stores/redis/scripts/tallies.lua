-- How the runs of the jobs since an id ended: {job, succeeded, failed, ...}. Runs that did not succeed are looked at, the
-- newest of all jobs; the others of a job are counted only.
local broken = call('ZREVRANGEBYLEX', P .. 'broken', '+', '[' .. ask.since, 'LIMIT', 0, ask.most)
local since, failed, others = broken[ask.most] or ask.since, {}, {}
for _, id in ipairs(broken) do
    local job, state = unpack(call('HMGET', P .. 'run:' .. id, 'job_id', 'state'))
    local kind = state == 'failed' and failed or others
    kind[job] = (kind[job] or 0) + 1
end
local found = {}
for _, job in ipairs(ask.jobs) do
    local living = P .. 'live:' .. (call('HGET', P .. 'job_ids', job) or '')
    local live, bad = call('SCARD', living), failed[job] or 0
    for _, id in ipairs(live <= ask.most and call('SMEMBERS', living) or {}) do
        live = id < since and live - 1 or live
    end
    local ended = call('ZLEXCOUNT', P .. 'runs:' .. job, '[' .. since, '+') - live
    if ended > 0 then
        found[#found + 1], found[#found + 2], found[#found + 3] = job, ended - bad - (others[job] or 0), bad
    end
end
return found
