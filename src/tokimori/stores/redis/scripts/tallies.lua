-- How many runs of each of the jobs since an id have succeeded and failed, -1 for a job without: {number, number, ...}.
-- Those of a job are counted without a look at them; of all that did not succeed the newest are looked at.
local broken = call('ZREVRANGEBYLEX', P .. 'broken', '+', '[' .. ask.since, 'LIMIT', 0, ask.most)
local since, failed, others = ask.since, {}, {}
if #broken == ask.most then
    since = broken[#broken]
end
for _, id in ipairs(broken) do
    local job, state = unpack(call('HMGET', P .. 'run:' .. id, 'job_id', 'state'))
    local kind = state == 'failed' and failed or others
    kind[job] = (kind[job] or 0) + 1
end
local function lives(job)
    local inc = call('HGET', P .. 'job_ids', job)
    local all = inc and call('SCARD', P .. 'live:' .. inc) or 0
    if all == 0 or all > ask.most then
        return all
    end
    local newer = 0
    for _, id in ipairs(call('SMEMBERS', P .. 'live:' .. inc)) do
        newer = newer + (id >= since and 1 or 0)
    end
    return newer
end
local found = {}
for _, job in ipairs(ask.jobs) do
    local ended = math.max(0, call('ZLEXCOUNT', P .. 'runs:' .. job, '[' .. since, '+') - lives(job))
    local bad = failed[job] or 0
    found[#found + 1] = ended == 0 and -1 or math.max(0, ended - bad - (others[job] or 0))
    found[#found + 1] = bad
end
return found
