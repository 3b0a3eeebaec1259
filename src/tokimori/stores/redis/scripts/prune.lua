-- Turn old runs and skips into counts, by expiries; in which it stopped, and its keep_runs, kept and after; or nil.
local DAY, PASSED = 86400000000, 10
local left = ask.limit

local function count(job, inc, moment, outcome, number)
    local day = string.format('%.0f', moment - moment % DAY)
    call('HINCRBY', P .. 'counts:' .. job, inc .. ' ' .. day .. ' ' .. outcome, number)
end

local function drop_run(job, id, inc, origin, attempt)
    call('DEL', P .. 'run:' .. id, P .. 'attempts:' .. id)
    for number = 0, tonumber(attempt or 0) do
        call('DEL', P .. 'output:' .. id .. ':' .. number)
    end
    call('ZREM', P .. 'runs', id)
    call('ZREM', P .. 'broken', id)
    call('ZREM', P .. 'runs:' .. job, id)
    if call('HGET', P .. 'origins:' .. inc, origin) == id then
        call('HDEL', P .. 'origins:' .. inc, origin)
    end
    note_newest(inc, origin, id)
end

-- From the newest run downwards. Those that live are no part of what the job keeps.
local function pass_over(old)
    while old.keep_runs > 0 and left > 0 do
        local wanted = math.min(PASSED * left, math.max(old.keep_runs, 100))
        local ids = call('ZREVRANGEBYLEX', P .. 'runs:' .. old.job_id, '(' .. old.kept, '-', 'LIMIT', 0, wanted)
        for _, id in ipairs(ids) do
            if old.keep_runs > 0 then
                old.kept = id
                old.keep_runs = old.keep_runs - (call('ZSCORE', P .. 'live', id) and 0 or 1)
            end
        end
        if #ids < wanted and old.keep_runs > 0 then
            old.keep_runs, old.kept = 0, old.after
        end
        left = left - math.ceil(#ids / PASSED)
    end
end

local function old_runs(old, most)
    local bound = old.kept < old.made_before and old.kept or old.made_before
    return call('ZRANGEBYLEX', P .. 'runs:' .. old.job_id, '(' .. old.after, '(' .. bound, 'LIMIT', 0, most)
end

local function prune_runs(old)
    for _, id in ipairs(old_runs(old, left)) do
        local state, ended, inc, origin, attempt =
            unpack(call('HMGET', P .. 'run:' .. id, 'state', 'ended', 'incarnation', 'origin', 'attempt'))
        local before = string.sub(origin, 1, 2) == 's:' and old.before or old.keyed_before
        if ENDS[state] and tonumber(ended) < before then
            drop_run(old.job_id, id, inc, origin, attempt)
            count(old.job_id, inc, tonumber(ended), state, 1)
        end
        left, old.after = left - 1, id
    end
end

-- The newest one stays, unless the job is deleted: an open range may still grow.
local function prune_skips(old)
    local key = P .. 'skips:' .. old.incarnation
    local newest = not old.deleted and call('ZREVRANGE', key, 0, 0)[1]
    for _, text in ipairs(call('ZRANGEBYSCORE', key, '-inf', '(' .. old.before, 'LIMIT', 0, left)) do
        local last, number, reason = string.match(text, '^%S+ (%S+) (%S+) (%S+)')
        if text ~= newest and tonumber(last) < old.before then
            call('ZREM', key, text)
            count(old.job_id, old.incarnation, tonumber(last), reason, number)
            left = left - 1
        end
    end
end

for n, old in ipairs(ask.old) do
    local inc, job = old.incarnation, old.job_id
    local exists = call('HEXISTS', P .. 'job_ids', job) == 1
    if #old_runs(old, 1) > 0 and not (old.deleted and exists) then
        pass_over(old)
        if old.keep_runs == 0 then
            prune_runs(old)
        end
    end
    prune_skips(old)
    local arrivals, over = P .. 'arrivals:' .. inc, '(' .. old.keyed_before
    for _, root in ipairs(call('ZRANGEBYSCORE', arrivals, '-inf', over, 'LIMIT', 0, left)) do
        call('DEL', P .. 'arrived:' .. inc .. ':' .. root)
        call('ZREM', arrivals, root)
        left = left - 1
    end
    if left == 0 then
        return {n, old.keep_runs, old.kept, old.after}
    end
    if old.deleted and call('EXISTS', P .. 'skips:' .. inc, P .. 'live:' .. inc, arrivals) == 0
        and (exists or call('EXISTS', P .. 'runs:' .. job) == 0) then
        call('ZREM', P .. 'deleted', padded(inc) .. ' ' .. job)
        call('ZREM', P .. 'tombstones:' .. job, inc)
        call('DEL', P .. 'deleted:' .. inc)
    end
end
return {false, 0, '', ''}
