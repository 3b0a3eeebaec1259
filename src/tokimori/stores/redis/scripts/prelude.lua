-- Stands before every script. KEYS[1]: the prefix of all keys. ARGV[1]: what is asked, as MessagePack.
-- A script reads and checks first, and writes when nothing can refuse it any more.
local P = KEYS[1]
local ask = cmsgpack.unpack(ARGV[1])
local call = redis.call

if call('EXISTS', P .. 'schema') == 0 then
    return redis.error_reply('NOSCHEMA there are no keys of this installation')
end

local ENDS = {succeeded = true, failed = true, cancelled = true, skipped = true}

-- A table of RESP2 ends at a nil: absent fields are false.
local function row(key)
    local found = call('HGETALL', key)
    return #found > 0 and found
end

-- Numbers ascend as texts do.
local function padded(inc)
    return string.rep('0', 19 - #inc) .. inc
end

local function unpadded(text)
    return (string.gsub(text, '^0+(%d)', '%1'))
end

-- Where the run stands as long as it is in that state. Those that run are kept by claim and settle.
local function enter(id, inc, state, lane, due, rank)
    if state == 'waiting' then
        call('ZADD', P .. 'waiting', due, id)
    elseif state == 'ready' and lane then
        call('ZADD', P .. 'ready:' .. lane, rank, id)
        call('SADD', P .. 'lanes', lane)
    elseif state == 'blocked' then
        call('ZADD', P .. 'blocked:' .. inc, rank, id)
    elseif state == 'held' then
        call('SADD', P .. 'held:' .. inc, id)
    end
end

local function exit(id, inc, state, lane)
    if state == 'waiting' then
        call('ZREM', P .. 'waiting', id)
    elseif state == 'ready' and lane then
        call('ZREM', P .. 'ready:' .. lane, id)
    elseif state == 'blocked' then
        call('ZREM', P .. 'blocked:' .. inc, id)
    elseif state == 'held' then
        call('SREM', P .. 'held:' .. inc, id)
    end
end

-- A run that ended is not live any more. The origin of a scheduled one is guarded by fired_through from now on.
local function forget(id, inc)
    call('ZREM', P .. 'live', id)
    call('SREM', P .. 'live:' .. inc, id)
    local origin = call('HGET', P .. 'run:' .. id, 'origin')
    if string.sub(origin, 1, 2) == 's:' then
        call('HDEL', P .. 'origins:' .. inc, origin)
    end
end

-- Keep a new run, unless its origin is known. born: id, job, inc, origin, state, lane, due, rank, and its row, flat.
local function add(born)
    if call('HSETNX', P .. 'origins:' .. born.inc, born.origin, born.id) == 0 then
        return
    end
    call('HSET', P .. 'run:' .. born.id, unpack(born.row))
    call('ZADD', P .. 'runs', 0, born.id)
    call('ZADD', P .. 'runs:' .. born.job, 0, born.id)
    call('ZADD', P .. 'live', 0, born.id)
    call('SADD', P .. 'live:' .. born.inc, born.id)
    enter(born.id, born.inc, born.state, born.lane, born.due, born.rank)
end

-- Make the next in line ready, as many as places were freed (inc → number) and as there is room for. A paused job's
-- have no lane, and are claimed after its resume.
local function wake(freed)
    for inc, places in pairs(freed) do
        local limit = tonumber(call('HGET', P .. 'job:' .. inc, 'max_running') or -1)
        if limit > 0 then
            places = math.min(places, limit - call('SCARD', P .. 'running:' .. inc))
        end
        if limit >= 0 and places > 0 then
            local line = call('ZRANGE', P .. 'blocked:' .. inc, 0, places - 1, 'WITHSCORES')
            for n = 1, #line, 2 do
                local id, rank = line[n], line[n + 1]
                call('ZREM', P .. 'blocked:' .. inc, id)
                call('HSET', P .. 'run:' .. id, 'state', 'ready')
                enter(id, inc, 'ready', call('HGET', P .. 'run:' .. id, 'lane'), nil, rank)
            end
        end
    end
end

-- End runs that have not started, order the others to end; those that were ready pass their turn on.
local function cancel(ids, reason, now)
    local passed = {}
    for _, id in ipairs(ids) do
        local key = P .. 'run:' .. id
        local state, inc, lane = unpack(call('HMGET', key, 'state', 'incarnation', 'lane'))
        if state == 'running' then
            call('HSETNX', key, 'cancel', reason)
        elseif not ENDS[state] then
            if state == 'ready' then
                passed[inc] = (passed[inc] or 0) + 1
            end
            exit(id, inc, state, lane)
            call('HSET', key, 'state', 'cancelled', 'error', reason, 'ended', now)
            forget(id, inc)
        end
    end
    wake(passed)
end

-- Where a job stands while it is enabled: with the moments, or with those that no moment wakes. `was`: the tzdata by
-- which it stood there before.
local function index(id, inc, was, state, next_due, tzdata)
    local scheduled, member = state == 'enabled' and next_due, padded(inc)
    if was and not (scheduled and was == tzdata) then
        call('ZREM', P .. 'reckoned', was .. ' ' .. member)
    end
    if scheduled then
        call('ZADD', P .. 'due', next_due, member)
        call('ZADD', P .. 'reckoned', 0, tzdata .. ' ' .. member)
    else
        call('ZREM', P .. 'due', member)
    end
    if state == 'enabled' and not next_due then
        call('ZADD', P .. 'idle', 0, id)
    else
        call('ZREM', P .. 'idle', id)
    end
end

-- Rows of the ledger, {first, text} each; one that begins where a known one begins replaces it.
local function keep_skips(inc, skips)
    for _, skip in ipairs(skips) do
        call('ZREMRANGEBYSCORE', P .. 'skips:' .. inc, skip[1], skip[1])
        call('ZADD', P .. 'skips:' .. inc, skip[1], skip[2])
    end
end

-- A job, how many of its runs are active, and the newest skip of its ledger.
local function due_of(inc)
    local active = call('SCARD', P .. 'live:' .. inc) - call('SCARD', P .. 'held:' .. inc)
    return {row(P .. 'job:' .. inc), active, call('ZREVRANGE', P .. 'skips:' .. inc, 0, 0)[1] or false}
end

local function is_alive(node)
    return call('HGET', P .. 'node:' .. node, 'state') == 'alive'
end

-- Runs as their owner gets them: their rows, and the definitions of their jobs, each once.
local function claimed(ids)
    local rows, definitions, known = {}, {}, {}
    for n, id in ipairs(ids) do
        rows[n] = row(P .. 'run:' .. id)
        local inc = call('HGET', P .. 'run:' .. id, 'incarnation')
        if not known[inc] then
            known[inc] = true
            definitions[#definitions + 1] = inc
            definitions[#definitions + 1] = call('HGET', P .. 'job:' .. inc, 'definition')
        end
    end
    return {rows, definitions}
end

-- What there is to do: the next moment at which anything is due, and the lanes with ready runs.
local function survey()
    local due = call('ZRANGE', P .. 'due', 0, 0, 'WITHSCORES')[2]
    local waiting = call('ZRANGE', P .. 'waiting', 0, 0, 'WITHSCORES')[2]
    local soonest = false
    if due or waiting then
        soonest = math.min(tonumber(due or waiting), tonumber(waiting or due))
    end
    local lanes = {}
    for _, lane in ipairs(call('SMEMBERS', P .. 'lanes')) do
        if call('EXISTS', P .. 'ready:' .. lane) == 1 then
            lanes[#lanes + 1] = lane
        else
            call('SREM', P .. 'lanes', lane)
        end
    end
    return {soonest, lanes}
end
