-- Turn old runs and skips into counts, {job, inc, bound, before, keyed_before, keep, deleted} each; how many.
local DAY, PAGE, MOST_EXAMINED = 86400000000, 500, 20000
local left, examined = ask.limit, 0

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
    call('ZREM', P .. 'runs:' .. job, id)
    if call('HGET', P .. 'origins:' .. inc, origin) == id then
        call('HDEL', P .. 'origins:' .. inc, origin)
    end
    if string.sub(origin, 1, 2) == 'k:' and call('HGET', P .. 'newest:' .. inc, string.sub(origin, 1, -37)) == id then
        call('HDEL', P .. 'newest:' .. inc, string.sub(origin, 1, -37))
    end
end

-- The oldest runs of the job, as many as there are more than it keeps. Those that live are no part of what it keeps.
local function prune_runs(old)
    local key, from = P .. 'runs:' .. old.job, '-'
    local free = call('ZCARD', key) - old.keep - call('SCARD', P .. 'live:' .. old.inc)
    while left > 0 and free > 0 and examined < MOST_EXAMINED do
        local ids = call('ZRANGEBYLEX', key, from, '(' .. old.bound, 'LIMIT', 0, math.min(PAGE, free))
        if #ids == 0 then
            return
        end
        from = '(' .. ids[#ids]
        for _, id in ipairs(ids) do
            local state, ended, inc, origin, attempt =
                unpack(call('HMGET', P .. 'run:' .. id, 'state', 'ended', 'incarnation', 'origin', 'attempt'))
            examined = examined + 1
            if ENDS[state] then
                free = free - 1
                local bound = string.sub(origin, 1, 2) == 's:' and old.before or old.keyed_before
                if left > 0 and tonumber(ended) < bound then
                    drop_run(old.job, id, inc, origin, attempt)
                    count(old.job, inc, tonumber(ended), state, 1)
                    left = left - 1
                end
            end
        end
    end
end

-- The newest one stays, unless the job is deleted: an open range may still grow.
local function prune_skips(old)
    local key = P .. 'skips:' .. old.inc
    local newest = not old.deleted and call('ZREVRANGE', key, 0, 0)[1]
    for _, text in ipairs(call('ZRANGEBYSCORE', key, '-inf', '(' .. old.before, 'LIMIT', 0, left)) do
        local last, number, reason = string.match(text, '^%S+ (%S+) (%S+) (%S+)')
        if text ~= newest and tonumber(last) < old.before then
            call('ZREM', key, text)
            count(old.job, old.inc, tonumber(last), reason, number)
            left = left - 1
        end
    end
end

for _, old in ipairs(ask.old) do
    local exists = call('HEXISTS', P .. 'job_ids', old.job) == 1
    if left > 0 and not (old.deleted and exists) then
        prune_runs(old)
    end
    if left > 0 then
        prune_skips(old)
    end
    local arrivals, over = P .. 'arrivals:' .. old.inc, '(' .. old.keyed_before
    for _, root in ipairs(call('ZRANGEBYSCORE', arrivals, '-inf', over, 'LIMIT', 0, left)) do
        call('DEL', P .. 'arrived:' .. old.inc .. ':' .. root)
        call('ZREM', arrivals, root)
        left = left - 1
    end
    if left > 0 and old.deleted and call('EXISTS', P .. 'skips:' .. old.inc) == 0 and call('EXISTS', arrivals) == 0
        and call('EXISTS', P .. 'live:' .. old.inc) == 0 and (exists or call('EXISTS', P .. 'runs:' .. old.job) == 0) then
        call('ZREM', P .. 'deleted', padded(old.inc) .. ' ' .. old.job)
        call('ZREM', P .. 'tombstones:' .. old.job, old.inc)
        call('DEL', P .. 'deleted:' .. old.inc)
    end
end
return ask.limit - left
