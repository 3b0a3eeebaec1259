-- Give the node ready runs by (rank, id), each if its job has room; one that has none joins the line. Asked again, the
-- same runs. Before them stands whether it ended before it had looked at all that it could have had.
if not is_alive(ask.node) then
    return {false, {{}, {}}}
end

local PAGE = 100
local taken = {}
local owned = call('HGETALL', P .. 'owned:' .. ask.node)
for n = 1, #owned, 2 do
    if owned[n + 1] == ask.id then
        local rank, inc = unpack(call('HMGET', P .. 'run:' .. owned[n], 'rank', 'incarnation'))
        taken[#taken + 1] = {id = owned[n], inc = inc, rank = tonumber(rank)}
    end
end

-- The ready runs of a lane, a page at a time: nothing is written while they are read. The first page is its head alone:
-- of many lanes few are taken from.
local function refill(walk)
    walk.page = call('ZRANGE', walk.key, walk.read, walk.read + walk.size - 1, 'WITHSCORES')
    walk.read, walk.size, walk.at = walk.read + walk.size, math.min(4 * walk.size, PAGE), 1
end

local function advance(walk)
    walk.at = walk.at + 2
    if walk.at > #walk.page then
        refill(walk)
    end
    local id = walk.page[walk.at]
    walk.id, walk.rank = id or '', id and tonumber(walk.page[walk.at + 1]) or math.huge
end

-- A heap: no walk is sooner than the one at half its place.
local walks = {}
if #taken == 0 then
    for n, lane in ipairs(open_lanes(ask.lanes)) do
        walks[n] = {lane = lane, key = P .. 'ready:' .. lane, read = ask.skip, size = 1, page = {}, at = 1}
        advance(walks[n])
    end
    table.sort(walks, sooner)
end

local function sink(at)
    local walk, below = walks[at], 2 * at
    if walks[below + 1] and sooner(walks[below + 1], walks[below]) then
        below = below + 1
    end
    if walks[below] and sooner(walks[below], walk) then
        walks[at], walks[below] = walks[below], walk
        sink(below)
    end
end

local function next_run()
    local first = walks[1]
    if not first or first.id == '' then
        return nil
    end
    local id, rank, lane = first.id, first.rank, first.lane
    advance(first)
    sink(1)
    local inc, token, attempt, key =
        unpack(call('HMGET', P .. 'run:' .. id, 'incarnation', 'token', 'attempt', 'concurrency_key'))
    return {id = id, rank = rank, lane = lane, inc = inc, token = token, attempt = attempt, key = key or nil}
end

-- What of each constraint is taken, and who is first in which line: as of now, with what this claim takes and refuses.
local running, semaphores, firsts = {}, {}, {}
local function count(line)
    running[line] = running[line] or call('SCARD', P .. 'running:' .. line)
    return running[line]
end

local function state_of(name)
    local semaphore = semaphores[name]
    if not semaphore then
        local told = string.match(name, '@(.+)$')
        semaphore = semaphore_of(name)
            or {limit = 1, used = 0, new = true, rate = told and rate_of(name, told)}
        semaphore.before = semaphore.used
        semaphore.program = tonumber(call('ZRANGE', P .. 'programs:' .. name, 0, 0, 'WITHSCORES')[2])
        semaphores[name] = semaphore
    end
    return semaphore
end

-- Semaphores that a run wants, by name: those of its job, and the rate of its queue.
local paced, wants = {}, {}
for _, queue in ipairs(call('SMEMBERS', P .. 'paced')) do
    paced[queue] = true
end
local function wants_of(run)
    local queue, own = string.match(run.lane, '^[^|]*'), terms_of(run.inc).semaphores
    if not paced[queue] then
        return own
    end
    if not wants[run.inc] then
        local all = {{'queue:' .. queue, 1}}
        for _, each in ipairs(own) do
            all[#all + 1] = each
        end
        table.sort(all, function(a, b) return a[1] < b[1] end)
        wants[run.inc] = all
    end
    return wants[run.inc]
end

-- Whether somebody of its lane is before the run in that line. Whom this claim refused is before all that follow.
local function is_behind(run, line)
    if firsts[line] == nil then
        local id, rank = unpack(call('ZRANGE', line, 0, 0, 'WITHSCORES'))
        firsts[line] = id and {id = id, rank = tonumber(rank)} or false
    end
    return firsts[line] and sooner(firsts[line], run)
end

local function is_refused(run, name, weight)
    local semaphore = state_of(name)
    local overtaken = semaphore.program and semaphore.program <= run.rank
    local rate = semaphore.rate
    if rate and rate.left < weight and weight <= rate.units then
        rate.left = 0 -- what is left is kept for it
    end
    return overtaken or (not is_rate_alone(name) and semaphore.used + weight > semaphore.limit)
        or (rate and (weight > rate.left or (rate.kept and rate.kept ~= run.lane)))
        or is_behind(run, line_of(run.inc, run.lane, 'semaphore:' .. name))
end

-- The first constraint that refuses the run; nil: it is taken.
local function refusal(run, terms)
    if terms.limit ~= 0 and count(run.inc) >= terms.limit then
        return ''
    end
    if run.key and (count(run.inc .. ':' .. run.key) >= terms.per_key
        or is_behind(run, line_of(run.inc, run.lane, 'key', run.key))) then
        return 'key'
    end
    for _, wanted in ipairs(wants_of(run)) do
        if is_refused(run, wanted[1], wanted[2]) then
            return 'semaphore:' .. wanted[1]
        end
    end
    return nil
end

local function take(run, terms)
    taken[#taken + 1] = run
    running[run.inc] = count(run.inc) + 1
    if run.key then
        running[run.inc .. ':' .. run.key] = running[run.inc .. ':' .. run.key] + 1
    end
    for _, wanted in ipairs(wants_of(run)) do
        local semaphore, rate = semaphores[wanted[1]], semaphores[wanted[1]].rate
        if not is_rate_alone(wanted[1]) then
            semaphore.used = semaphore.used + wanted[2]
        end
        if rate then
            rate.left = rate.every > 0 and 0 or rate.left - wanted[2]
            rate.took, rate.passed = rate.took + wanted[2], rate.passed + wanted[2]
            rate.unkept, rate.kept = rate.unkept or rate.kept, nil
        end
    end
end

local refused, misplaced = {}, {}
local function refuse(run, constraint)
    run.constraint = constraint
    refused[#refused + 1] = run
    for _, wanted in ipairs(wants_of(run)) do
        local rate = semaphores[wanted[1]] and semaphores[wanted[1]].rate
        if rate then
            rate.passed = rate.passed + wanted[2]
            freed.names[wanted[1]] = true
        end
    end
    firsts[line_of(run.inc, run.lane, constraint, run.key)] = run
end

local repeated = #taken > 0
local cut = not repeated
for _ = 1, repeated and 0 or ask.limit + ask.most do
    local run = #taken < ask.limit and next_run()
    if not run then
        cut = false
        break
    end
    local terms = terms_of(run.inc)
    local constraint = refusal(run, terms)
    local move = terms.lane ~= run.lane and call('HGET', P .. 'moves', run.inc) -- none: it is a forced run
    if move and (cmsgpack.unpack(move).forced_lane or terms.lane) ~= run.lane then
        misplaced[#misplaced + 1] = run
    elseif constraint then
        refuse(run, constraint)
    else
        take(run, terms)
    end
end

-- What is taken of a rate; units of runs that may have been woken are not theirs any more, nor kept ones the lane's.
local function write_rate(name, rate)
    if rate.took > 0 then
        take_units(rate, rate.took)
    end
    if rate.woken > 0 and rate.passed > 0 then
        call('HSET', P .. 'semaphore:' .. name, 'woken', math.max(0, rate.woken - rate.passed))
    end
    if rate.unkept then
        call('HDEL', P .. 'semaphore:' .. name, 'kept')
        freed.names[name] = true
    end
end

-- What the run holds of semaphores, kept with it until it is settled.
local function hold_units(run, wanted)
    local holds = {}
    for _, each in ipairs(wanted) do
        if not is_rate_alone(each[1]) then
            holds[#holds + 1] = each[1] .. ' ' .. each[2]
            later('ZADD', P .. 'holders:' .. each[1], ask.now, run.id .. '/' .. each[1])
        end
    end
    if holds[1] then
        call('HSET', P .. 'run:' .. run.id, 'holds', table.concat(holds, ' '))
    end
end

local function write_taken(run)
    local key = P .. 'run:' .. run.id
    exit(run.id, run.inc, 'ready', run.lane)
    if run.attempt ~= '0' then
        call('HDEL', key, 'pid', 'started', 'exit_code', 'signal', 'error', 'cpu', 'memory')
    end
    call('HSET', key, 'state', 'running', 'node_id', ask.node, 'token', run.token + 1, 'attempt', run.attempt + 1)
    later('SADD', P .. 'running:' .. run.inc, run.id)
    later('HSET', P .. 'owned:' .. ask.node, run.id, ask.id)
    if run.key then
        later('SADD', P .. 'running:' .. run.inc .. ':' .. run.key, run.id)
    end
    local wanted = terms_of(run.inc).semaphores
    if wanted[1] then
        hold_units(run, wanted)
    end
end

local function write_refused(run)
    exit(run.id, run.inc, 'ready', run.lane)
    if run.constraint == '' then
        call('HSET', P .. 'run:' .. run.id, 'state', 'blocked')
    else
        call('HSET', P .. 'run:' .. run.id, 'state', 'blocked', 'blocked_on', run.constraint)
    end
    join_line(run.id, run.inc, run.lane, run.rank, run.constraint, run.key)
    pass_on(run.inc, run.key, run.constraint)
end

if not repeated then
    for name, semaphore in pairs(semaphores) do
        if semaphore.new then
            make_semaphore(name, semaphore.limit, 0)
        end
        if semaphore.used > semaphore.before then
            call('HINCRBY', P .. 'semaphore:' .. name, 'used', semaphore.used - semaphore.before)
        end
        if semaphore.rate then
            write_rate(name, semaphore.rate)
        end
    end
    for _, run in ipairs(taken) do
        write_taken(run)
    end
    for _, run in ipairs(refused) do
        write_refused(run)
    end
    for _, run in ipairs(misplaced) do
        relane(run.id, run.inc, cmsgpack.unpack(call('HGET', P .. 'moves', run.inc)).forced_lane)
    end
    serve()
end

table.sort(taken, sooner)
return {cut, claimed(taken)}
