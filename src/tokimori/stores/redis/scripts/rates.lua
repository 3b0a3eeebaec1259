-- Stands behind the prelude: rates of semaphores, and what is taken of them.
-- Nobody holds units of the rate of a job or a queue.
local function is_rate_alone(name)
    return string.find(name, ':', 1, true) ~= nil
end

local function now_here()
    local seconds, rest = unpack(call('TIME'))
    return seconds * 1000000 + rest
end

local function total_of(member)
    local total, units = string.match(member or '0 0', '^(%d+) (%d+)$')
    return tonumber(total), tonumber(units)
end

-- A rate and what is taken of it now: `left` is how many units may be taken, `every` the microseconds behind each unit of
-- a smooth one. What was taken of a job's rate stands under the part of the name before the @.
local function rate_of(name, text)
    local units, period, smooth = string.match(text, '^(%d+)/(%d+)(.*)$')
    local rate = {
        text = text, units = tonumber(units), period = tonumber(period), now = now_here(), took = 0, passed = 0,
        key = P .. 'taken:' .. string.match(name, '^[^@]+')}
    rate.every = smooth == '' and 0 or math.ceil(rate.period / rate.units)
    local newest, at = unpack(call('ZRANGE', rate.key, -1, -1, 'WITHSCORES'))
    local last
    rate.total, last = total_of(newest)
    rate.spaced = (tonumber(at or 0)) + last * rate.every
    rate.ahead = tonumber(at or 0) > rate.now
    local first = call('ZRANGEBYSCORE', rate.key, string.format('(%.0f', rate.now - rate.period), '+inf', 'LIMIT', 0, 1)[1]
    local total, taken = total_of(first)
    rate.used = first and rate.total - total + taken or 0
    rate.left = rate.spaced > rate.now and 0 or math.max(0, rate.units - rate.used)
    local turn, kept, woken, til =
        unpack(call('HMGET', P .. 'semaphore:' .. name, 'turn', 'kept', 'woken', 'until'))
    rate.turn, rate.til = turn or '', tonumber(til or 0)
    rate.kept = kept and rate.now < rate.til and turn or nil
    rate.woken = tonumber(woken or 0)
    return rate
end

-- What a clock that has been set back has as still to come was taken now.
local function cut(rate)
    local members = rate.ahead and call('ZRANGEBYSCORE', rate.key, string.format('(%.0f', rate.now), '+inf') or {}
    for _, member in ipairs(members) do
        call('ZADD', rate.key, rate.now, member)
    end
end

-- So many units are taken now; what counts no more is forgotten.
local function take_units(rate, units)
    rate.total = rate.total + units
    cut(rate)
    call('ZADD', rate.key, rate.now, string.format('%019.0f %.0f', rate.total, units))
    call('ZREMRANGEBYSCORE', rate.key, '-inf', string.format('%.0f', rate.now - rate.period))
    call('PEXPIRE', rate.key, math.ceil(rate.period / 1000) + 1000)
end

-- When so many units fit, behind `before` that others are to take first: at most a period ahead.
local function opens(rate, weight, before)
    local wanted, fits = weight + before, rate.now
    if wanted > rate.units then
        fits = rate.now + rate.period
    elseif rate.used + wanted > rate.units then
        local from, upto, at = string.format('(%.0f', rate.now - rate.period), rate.total + wanted - rate.units, 0
        repeat
            local page = call('ZRANGEBYSCORE', rate.key, from, '+inf', 'WITHSCORES', 'LIMIT', at, 100)
            for n = 1, #page, 2 do
                if fits == rate.now and total_of(page[n]) >= upto then
                    fits = tonumber(page[n + 1]) + rate.period
                end
            end
            at = at + 100
        until fits > rate.now or #page < 200
    end
    return math.min(math.max(fits, rate.now, rate.spaced, rate.now + before * rate.every), rate.now + rate.period)
end
