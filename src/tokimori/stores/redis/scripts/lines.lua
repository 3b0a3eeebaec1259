-- Stands behind the prelude: where a run stands, what it waits for, and who is next.
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
    local limit, used = unpack(call('HMGET', P .. 'semaphore:' .. name, 'limit', 'used'))
    return limit and {limit = tonumber(limit), used = tonumber(used)}
end

local function make_semaphore(name, limit, granted)
    call('HSET', P .. 'semaphore:' .. name, 'limit', limit, 'granted', granted, 'used', 0)
    call('ZADD', P .. 'semaphores', 0, name)
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

-- A semaphore, the first of every lane that waits for it, and the ranks of the first run and the first program. Runs of
-- paused queues keep no program waiting. nil: there is none.
local function line_up(name)
    local semaphore = semaphore_of(name)
    if not semaphore then
        return nil
    end
    local line = {name = name, free = semaphore.limit - semaphore.used, heads = {}}
    for _, lane in ipairs(call('SMEMBERS', P .. 'lines:' .. name)) do
        local key = P .. 'line:' .. name .. ':' .. lane
        local id, rank = unpack(call('ZRANGE', key, 0, 0, 'WITHSCORES'))
        if id then
            line.heads[#line.heads + 1] = {lane = lane, key = key, id = id, rank = tonumber(rank)}
            if #open_lanes({lane}) > 0 then
                line.first = math.min(line.first or math.huge, tonumber(rank))
            end
        else
            call('SREM', P .. 'lines:' .. name, lane)
        end
    end
    line.program = tonumber(call('ZRANGE', P .. 'programs:' .. name, 0, 0, 'WITHSCORES')[2])
    return line
end

-- Above the earlier ones, also those of semaphores that were deleted.
local function next_token(name)
    local semaphore = P .. 'semaphore:' .. name
    local token = 1 + math.max(call('HGET', semaphore, 'granted') or 0, call('GET', P .. 'tokens') or 0)
    call('HSET', semaphore, 'granted', token)
    return token
end

-- Programs before or level with every blocked run get their units, in order, as far as they fit; how many.
local function grant_programs(line)
    local name, granted = line.name, 0
    while line.program and line.program <= (line.first or math.huge) do
        local id = call('ZRANGE', P .. 'programs:' .. name, 0, 0)[1]
        local permit, weight = P .. 'permit:' .. id, units_wanted(name, id)
        if weight > line.free then
            break
        end
        call('ZREM', P .. 'programs:' .. name, id)
        call('ZREM', P .. 'heavy:' .. name, id)
        call('HINCRBY', P .. 'semaphore:' .. name, 'used', weight)
        call('HSET', permit, 'token', next_token(name))
        call('ZADD', P .. 'holders:' .. name, call('HGET', permit, 'since'), id)
        line.free, granted = line.free - weight, granted + 1
        line.program = tonumber(call('ZRANGE', P .. 'programs:' .. name, 0, 0, 'WITHSCORES')[2])
    end
    return granted
end

-- Whether a run at this place of its lane's line could have that many units.
local function is_served(line, rank, weight, free)
    return weight <= free and rank < (line.program or math.huge)
end

-- In every lane but the busy ones those runs are ready again, from the head on, that fit together; how many.
local function wake_runs(line, busy)
    local woken = 0
    for _, head in ipairs(line.heads) do
        local most = not busy[head.lane] and math.min(line.free, MOST_WOKEN) or 0
        local page = most > 0 and call('ZRANGE', head.key, 0, most - 1, 'WITHSCORES') or {}
        local free, served = line.free, {}
        for n = 1, #page, 2 do
            local weight = units_wanted(line.name, page[n])
            if not is_served(line, tonumber(page[n + 1]), weight, free) then
                break
            end
            free = free - weight
            served[n], served[n + 1] = page[n], page[n + 1]
            later('ZREM', P .. 'heavy:' .. line.name, page[n])
        end
        wake(head.key, served, 'semaphore:' .. line.name)
        woken = woken + #served / 2
    end
    return woken
end

local function serve_semaphore(name)
    local line = line_up(name)
    return line and grant_programs(line) + wake_runs(line, {}) or 0
end

-- What a program holds is free, or its place in line; the semaphore.
local function drop_permit(id)
    local permit = P .. 'permit:' .. id
    local name, node, weight, token = unpack(call('HMGET', permit, 'semaphore', 'node_id', 'weight', 'token'))
    if token then
        call('HINCRBY', P .. 'semaphore:' .. name, 'used', -weight)
        call('ZREM', P .. 'holders:' .. name, id)
    else
        call('ZREM', P .. 'programs:' .. name, id)
        call('ZREM', P .. 'heavy:' .. name, id)
    end
    call('SREM', P .. 'permits:' .. node, id)
    call('DEL', permit)
    freed.names[name] = true
end

-- Make ready, or grant, who is next in the lines of what became free; how many of those who wait for semaphores.
local function serve()
    flush()
    for inc, places in pairs(freed.places) do
        serve_job(inc, places)
    end
    for _, each in pairs(freed.keys) do
        serve_key(each[1], each[2])
    end
    local served = 0
    for name in pairs(freed.names) do
        served = served + serve_semaphore(name)
    end
    freed.places, freed.keys, freed.names = {}, {}, {}
    return served
end

-- Keep a new run, unless its origin is known. born: id, job, inc, origin, state, lane, due, rank, constraint, key, and
-- its row, flat.
local function add(born)
    if call('HSETNX', P .. 'origins:' .. born.inc, born.origin, born.id) == 0 then
        return
    end
    call('HSET', P .. 'run:' .. born.id, unpack(born.row))
    note_newest(born.inc, born.origin, born.id)
    later('ZADD', P .. 'runs', 0, born.id)
    later('ZADD', P .. 'runs:' .. born.job, 0, born.id)
    later('ZADD', P .. 'live', 0, born.id)
    later('SADD', P .. 'live:' .. born.inc, born.id)
    if string.sub(born.origin, 1, 2) == 's:' then
        later('SADD', P .. 'scheduled:' .. born.inc, born.id)
    end
    if born.state == 'blocked' then
        join_line(born.id, born.inc, born.lane, born.rank, born.blocked_on, born.key)
    else
        enter(born.id, born.inc, born.state, born.lane, born.due, born.rank)
    end
end

-- A node is gone, and with it what its programs hold and wait for.
local function drop_programs(node)
    for _, id in ipairs(call('SMEMBERS', P .. 'permits:' .. node)) do
        drop_permit(id)
    end
    serve()
end
