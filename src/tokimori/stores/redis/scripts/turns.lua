-- Stands behind the lines: whose turn it is at what became free, and new runs.
-- A semaphore, the first of every lane that waits for it, and the ranks of the first run and the first program. Runs of
-- paused queues keep no program waiting. nil: there is none.
local function line_up(name)
    local semaphore = semaphore_of(name)
    if not semaphore then
        return nil
    end
    local line = {name = name, unheld = semaphore.limit - semaphore.used, rate = semaphore.rate, heads = {}}
    line.free = line.rate and math.min(line.unheld, line.rate.left) or line.unheld
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
        if line.rate then
            take_units(line.rate, weight)
            line.rate = semaphore_of(name).rate
            line.free, line.unheld = math.min(line.free, line.rate.left), line.unheld - weight
        end
    end
    return granted
end

-- Whether a run at this place of its lane's line could have that many units.
local function is_served(line, rank, weight, free)
    return weight <= free and rank < (line.program or math.huge)
end

local PATIENCE = 1000000

-- The next run of a lane; nil: there is none before the first program.
local function next_in_line(line, walk)
    walk.at = walk.at + 2
    if walk.at > #walk.page and walk.read < MOST_WOKEN then
        walk.page, walk.at = call('ZRANGE', walk.key, walk.read, walk.read + 99, 'WITHSCORES'), 1
        walk.read = walk.read + 100
    end
    local id, rank = walk.page[walk.at], tonumber(walk.page[walk.at + 1] or 0)
    return id and rank < (line.program or math.huge) and {id = id, rank = rank, weight = units_wanted(line.name, id)}
end

-- The lanes of a line in their order, from the one whose turn it is. Those of which ready runs come before the ones in line
-- are left out, as units would wait for these; whether there are some. Only the lane for which units are kept counts.
local function lanes_in_turn(line)
    local lanes, passed = {}, false
    for _, head in ipairs(line.heads) do
        if call('ZCOUNT', P .. 'ready:' .. head.lane, '-inf', head.rank) > 0 then
            passed = true
        elseif not line.rate.kept or head.lane == line.rate.kept then
            lanes[#lanes + 1] = {lane = head.lane, key = head.key, read = 0, page = {}, at = -1, served = {}}
        end
    end
    table.sort(lanes, function(a, b)
        local behind_a, behind_b = a.lane < line.rate.turn, b.lane < line.rate.turn
        return (behind_a == behind_b and a.lane < b.lane) or (behind_b and not behind_a)
    end)
    for _, walk in ipairs(lanes) do
        walk.head = next_in_line(line, walk)
    end
    return lanes, passed
end

local function write_turns(line, wakes, turn, kept, woken, til)
    local key = P .. 'semaphore:' .. line.name
    if wakes then
        call('ZADD', P .. 'wakes', wakes, line.name)
    else
        call('ZREM', P .. 'wakes', line.name)
    end
    call('HDEL', key, 'turn', 'kept')
    call('HSET', key, 'woken', woken, 'until', til)
    if turn then
        call('HSET', key, 'turn', turn)
    end
    if kept then
        call('HSET', key, 'kept', 1)
    end
end

-- As many runs are ready again as there are units of the rate: one of each lane after the other, up to a head that wants
-- more; it is next. If nobody else was woken, what is free is kept for it. The rule is `serve_in_turn` of
-- stores/rules/rates.py. How many.
local function wake_in_turn(line)
    local rate = line.rate
    cut(rate)
    local whole, count, stopped = math.min(line.unheld, rate.units), 0, nil
    local units = rate.now < rate.til and rate.woken or 0
    local lanes, passed = lanes_in_turn(line)
    local first = lanes[1] and lanes[1].head
    if rate.kept and not (passed or units > 0 or (first and first.weight <= whole)) then -- its head has gone
        rate.kept = nil
        lanes, passed = lanes_in_turn(line)
    end
    local n = 1
    while #lanes > 0 and not stopped do
        n = n > #lanes and 1 or n
        local walk = lanes[n]
        local head = walk.head
        if not head or head.weight > whole then -- units that are given back serve a heavy one, or a larger limit
            wake(walk.key, walk.served, 'semaphore:' .. line.name)
            table.remove(lanes, n)
        elseif head.weight > line.free - units or (rate.every > 0 and units > 0) or count == MOST_WOKEN then
            stopped = {lane = walk.lane, weight = head.weight}
        else
            walk.served[#walk.served + 1], walk.served[#walk.served + 2] = head.id, head.rank
            later('ZREM', P .. 'heavy:' .. line.name, head.id)
            units, count, walk.head, n = units + head.weight, count + 1, next_in_line(line, walk), n + 1
            if rate.kept then
                break
            end
        end
    end
    for _, walk in ipairs(lanes) do
        wake(walk.key, walk.served, 'semaphore:' .. line.name)
    end
    local til = count > 0 and rate.now + PATIENCE or rate.til
    local wakes, turn, kept = nil, nil, false
    if stopped and count < MOST_WOKEN then
        wakes, turn = opens(rate, stopped.weight, units), stopped.lane
        if units > 0 and stopped.weight <= line.free then
            wakes = math.min(wakes, til)
        end
        kept = units == 0 and line.free > 0 and stopped.weight > line.free
        til = kept and wakes + PATIENCE or til
        wakes = math.max(wakes, rate.now + 1)
    elseif rate.kept then
        wakes, turn, kept = til, rate.kept, true
    elseif stopped then
        wakes, turn = rate.now + 100000, stopped.lane
    elseif line.program then
        local first = call('ZRANGE', P .. 'programs:' .. line.name, 0, 0)[1]
        local weight = units_wanted(line.name, first)
        wakes = weight <= whole and opens(rate, weight, units) or nil
    end
    if passed then
        wakes = math.min(wakes or math.huge, rate.now + 100000)
    end
    write_turns(line, wakes, turn, kept, units, til)
    return count
end

-- In every lane but the busy ones those runs are ready again, from the head on, that fit together; how many.
local function wake_runs(line, busy)
    if line.rate then
        return wake_in_turn(line)
    end
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
    note_newest(born.inc, born.origin, nil, born.id)
    later('ZADD', P .. 'runs', 0, born.id)
    later('ZADD', P .. 'runs:' .. born.job, 0, born.id)
    later('ZADD', P .. 'live', 0, born.id)
    later('ZADD', P .. 'live:' .. born.inc, 0, born.id)
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
