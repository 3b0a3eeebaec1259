-- Stands behind the rates: where a run stands, what it waits for, and who is next.
--
-- What may refuse a run is its constraint: its job's limit (''), its key ('key'), or a semaphore ('semaphore:NAME').
local MOST_WOKEN = 1000

local function semaphore_in(constraint)
    return constraint and string.match(constraint, '^semaphore:(.+)$')
end

-- The line of a constraint: one a job, one a key of it, one a semaphore and lane.
local function line_of(inc, lane, constraint, key)
    local name = semaphore_in(constraint)
    if name then
        return P .. 'line:' .. name .. ':' .. lane
    elseif constraint == 'key' then
        return P .. 'blocked:' .. inc .. ':' .. key
    end
    return P .. 'blocked:' .. inc
end

local function leave_line(id, inc, lane, constraint, key)
    local name = semaphore_in(constraint)
    later('ZREM', P .. 'blocked', id)
    if name and lane then
        later('ZREM', P .. 'heavy:' .. name, id)
    end
    if lane or not name then
        later('ZREM', line_of(inc, lane, constraint, key), id)
    end
end

-- Where the run stands as long as it is in that state. Those that run are kept by claim and settle.
local function enter(id, inc, state, lane, due, rank)
    if state == 'waiting' then
        later('ZADD', P .. 'waiting', due, id)
        if tonumber(due) == 7258118400000000 then -- `model.run.NEVER`: it waits for what it has spawned, and is not active
            later('SADD', P .. 'held:' .. inc, id)
        end
    elseif state == 'ready' and lane then
        later('ZADD', P .. 'ready:' .. lane, rank, id)
        later('SADD', P .. 'lanes', lane)
    elseif state == 'held' then
        later('SADD', P .. 'held:' .. inc, id)
        later('ZADD', P .. 'held', 0, id)
    end
end

local function exit(id, inc, state, lane, constraint, key)
    if state == 'waiting' then
        later('ZREM', P .. 'waiting', id)
        if inc then -- one that becomes due was active
            later('SREM', P .. 'held:' .. inc, id)
        end
    elseif state == 'ready' and lane then
        later('ZREM', P .. 'ready:' .. lane, id)
    elseif state == 'blocked' then
        leave_line(id, inc, lane, constraint, key)
    elseif state == 'held' then
        later('SREM', P .. 'held:' .. inc, id)
        later('ZREM', P .. 'held', id)
    end
end

-- What a job asks for its runs: `limit` of all of them (-1: the job is gone), of those of one key, and semaphores,
-- {name, weight} each, by name; and the lane in which they wait while it is enabled.
local known_terms = {}
local function terms_of(inc)
    local terms = known_terms[inc]
    if not terms then
        local limit, per_key, semaphores, lane =
            unpack(call('HMGET', P .. 'job:' .. inc, 'max_running', 'max_per_key', 'semaphores', 'lane'))
        terms = {
            lane = lane, limit = tonumber(limit or -1), per_key = tonumber(per_key or 1),
            semaphores = semaphores and cjson.decode(semaphores) or {}}
        known_terms[inc] = terms
    end
    return terms
end

local function weight_of(inc, name)
    for _, wanted in ipairs(terms_of(inc).semaphores) do
        if wanted[1] == name then
            return wanted[2]
        end
    end
    return 1
end

local function semaphore_of(name)
    local limit, used, rate = unpack(call('HMGET', P .. 'semaphore:' .. name, 'limit', 'used', 'rate'))
    return limit and {limit = tonumber(limit), used = tonumber(used), rate = rate and rate_of(name, rate)}
end

-- The name of a job's rate tells it.
local function make_semaphore(name, limit, granted, rate)
    if is_rate_alone(name) then
        limit, rate = 1000000, string.match(name, '@(.+)$') or rate
    end
    call('HSET', P .. 'semaphore:' .. name, 'limit', limit, 'granted', granted, 'used', 0)
    call('ZADD', P .. 'semaphores', 0, name)
    if rate then
        call('HSET', P .. 'semaphore:' .. name, 'rate', rate)
    end
end

local known_lines = {}
local function join_line(id, inc, lane, rank, constraint, key)
    local name = semaphore_in(constraint)
    later('ZADD', P .. 'blocked', 0, id)
    if name and not lane then
        return
    end
    local line = line_of(inc, lane, constraint, key)
    later('ZADD', line, rank, id)
    if name then
        if not known_lines[line] then
            later('SADD', P .. 'lines:' .. name, lane)
            later('ZADD', P .. 'awaited', 0, name)
            known_lines[line] = true
        end
        local weight = weight_of(inc, name)
        if weight > 1 then
            later('ZADD', P .. 'heavy:' .. name, weight, id)
        end
    end
end

-- Everyone in a line wants one unit, but for those that are kept apart.
local function units_wanted(name, id)
    return tonumber(call('ZSCORE', P .. 'heavy:' .. name, id) or 1)
end

-- What became free, or whose turn has to be passed on: places of jobs (inc → number), keys, and semaphores. Their lines
-- are served together.
local freed = {places = {}, keys = {}, names = {}}

local function free_place(inc, key)
    freed.places[inc] = (freed.places[inc] or 0) + 1
    if key then
        freed.keys[inc .. ' ' .. key] = {inc, key}
    end
end

-- The turn that a run may have had in each of its lines, but for the one that refuses it now.
local function pass_on(inc, key, refused_by)
    if refused_by == '' then
        if key then
            freed.keys[inc .. ' ' .. key] = {inc, key}
        end
    else
        free_place(inc, refused_by ~= 'key' and key)
    end
    for _, wanted in ipairs(terms_of(inc).semaphores) do
        if refused_by ~= 'semaphore:' .. wanted[1] then
            freed.names[wanted[1]] = true
        end
    end
end

-- A run goes that has not started: a ready one passes its turn on, a blocked one makes way in the line of its semaphore.
local function make_way(inc, state, constraint, key)
    if state == 'ready' then
        pass_on(inc, key)
    elseif semaphore_in(constraint) then
        freed.names[semaphore_in(constraint)] = true
    end
end

-- What a run holds, "name weight" for each semaphore, is free.
local function give_back(id, holds)
    for name, weight in string.gmatch(holds, '(%S+) (%d+)') do
        call('HINCRBY', P .. 'semaphore:' .. name, 'used', -weight)
        later('ZREM', P .. 'holders:' .. name, id .. '/' .. name)
        freed.names[name] = true
    end
end

-- Those first in the line of a constraint are ready again, {id, rank, …}.
local function wake(line, heads, constraint)
    for n = 1, #heads, 2 do
        local id, run = heads[n], P .. 'run:' .. heads[n]
        local lane, inc = unpack(call('HMGET', run, 'lane', 'incarnation'))
        later('ZREM', line, id)
        later('ZREM', P .. 'blocked', id)
        call('HSET', run, 'state', 'ready')
        if constraint ~= '' then
            call('HDEL', run, 'blocked_on')
        end
        enter(id, inc, 'ready', lane, nil, heads[n + 1])
    end
end

-- As many as places became free, and as there is room for; how many. A paused job's have no lane, and are claimed after
-- its resume.
local function serve_job(inc, places)
    local limit, line = terms_of(inc).limit, P .. 'blocked:' .. inc
    if limit > 0 then
        places = math.min(places, limit - call('SCARD', P .. 'running:' .. inc))
    end
    if limit < 0 or places <= 0 then
        return 0
    end
    local heads = call('ZRANGE', line, 0, places - 1, 'WITHSCORES')
    wake(line, heads, '')
    return #heads / 2
end

local function serve_key(inc, key)
    local line = P .. 'blocked:' .. inc .. ':' .. key
    local room = terms_of(inc).per_key - call('SCARD', P .. 'running:' .. inc .. ':' .. key)
    if terms_of(inc).limit >= 0 and room > 0 then
        wake(line, call('ZRANGE', line, 0, math.min(room, MOST_WOKEN) - 1, 'WITHSCORES'), 'key')
    end
end
