-- Stands before every script, which is put into a function, and `flush` is called after it. KEYS[1]: the prefix of all
-- keys. ARGV[1]: what is asked, as MessagePack. A script reads and checks first, and writes when nothing can refuse it.
local P = KEYS[1]
local ask = cmsgpack.unpack(ARGV[1])
local call = redis.call

if call('EXISTS', P .. 'schema') == 0 then
    return redis.error_reply('NOSCHEMA there are no keys of this installation')
end

if ask.guard and call('HGET', P .. 'document:' .. ask.guard[1], 'version') ~= ask.guard[2] then
    return redis.error_reply('GUARD overtaken by another change')
end
if ask.shut and call('HGET', P .. 'document:' .. ask.shut[1], 'version') == ask.shut[2] then
    return redis.error_reply('GUARD shut by a document')
end

local ENDS = {succeeded = true, failed = true, cancelled = true, skipped = true}

-- A table of RESP2 ends at a nil: absent fields are false. Of a run in a list only the values of fields that are asked
-- for, and of those that may be long, where they are too long, `ask.long`.
local function row(key)
    local found = call(ask.short and 'HMGET' or 'HGETALL', key, unpack(ask.short or {}))
    for _, field in ipairs(ask.texts or {}) do
        found[#found + 1] = call('HSTRLEN', key, field) > ask.longest and ask.long or call('HGET', key, field)
    end
    return found[1] and found or false
end

-- Members that a command adds to one key, or takes from it, are kept until `flush`, for one call with many of them.
-- No script both adds and takes the same member of the same key.
local pending, order, ends = {}, {}, {}
local function later(command, key, first, second)
    local words = pending[command .. key] or {command = command, key = key, size = 0}
    if words.size == 0 then
        pending[command .. key] = words
        order[#order + 1] = words
    end
    words[words.size + 1], words[words.size + 2] = first, second
    words.size = words.size + (second and 2 or 1)
end

local MOST_WORDS = 1000
local function flush()
    for _, words in ipairs(order) do
        for from = 1, words.size, MOST_WORDS do
            call(words.command, words.key, unpack(words, from, math.min(from + MOST_WORDS - 1, words.size)))
        end
    end
    if #ends > 0 then
        call('XADD', P .. 'ends', '*', 'runs', table.concat(ends, ' '))
    end
    pending, order, ends = {}, {}, {}
end

-- Numbers ascend as texts do.
local function padded(inc)
    return string.rep('0', 19 - #inc) .. inc
end

local function unpadded(text)
    return (string.gsub(text, '^0+(%d)', '%1'))
end

-- A run that ended is not live any more. The origin of a scheduled one is guarded by fired_through from now on.
local function forget(id, inc, origin, state)
    ends[#ends + 1] = id
    if state ~= 'succeeded' then
        later('ZADD', P .. 'broken', 0, id)
    end
    later('ZREM', P .. 'live', id)
    later('ZREM', P .. 'live:' .. inc, id)
    if string.sub(origin, 1, 2) == 's:' then
        later('HDEL', P .. 'origins:' .. inc, origin)
        later('SREM', P .. 'scheduled:' .. inc, id)
    end
end

local function lives(id)
    return not ENDS[call('HGET', P .. 'run:' .. id, 'state') or 'skipped']
end

-- Of the runs that share a key the newest, or the newest that lives.
local function newest_of(inc, prefix, living)
    for id in string.gmatch(call('HGET', P .. 'newest:' .. inc, prefix) or '', '%S+') do
        if not living or lives(id) then
            return id
        end
    end
end

-- The newest one has the greatest id, with which its origin ends; behind it stand those that live. One is gone, or new.
local function note_newest(inc, origin, gone, new)
    local key, prefix = P .. 'newest:' .. inc, string.sub(origin, 1, -37)
    if string.sub(origin, 1, 2) ~= 'k:' then
        return
    end
    local ids, kept = {new}, {}
    for id in string.gmatch(call('HGET', key, prefix) or '', '%S+') do
        ids[#ids + 1] = id ~= gone and id ~= new and id or nil
    end
    table.sort(ids, function(a, b) return a > b end)
    for n, id in ipairs(ids) do
        kept[#kept + 1] = (n == 1 or lives(id)) and id or nil
    end
    local _ = kept[1] and call('HSET', key, prefix, table.concat(kept, ' ')) or call('HDEL', key, prefix)
end

-- Whether so many more runs of a job may be active.
local function has_room(inc, coming)
    local most = coming > 0 and call('HGET', P .. 'job:' .. inc, 'most_active')
    if not most then
        return true
    end
    flush()
    return call('ZCARD', P .. 'live:' .. inc) - call('SCARD', P .. 'held:' .. inc) + coming <= tonumber(most)
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

-- Whether edges were checked against the family of now.
local function is_family(version)
    return tonumber(call('GET', P .. 'family') or 0) == version
end

-- Put the edges that these jobs declare now, {parent, child, on, joins, declared_by} each, in place of the old ones.
local function declare(jobs, edges)
    for _, job in ipairs(jobs) do
        for _, edge in ipairs(call('SMEMBERS', P .. 'declares:' .. job)) do
            call('SREM', P .. 'edges', edge)
            call('SREM', P .. 'children:' .. string.match(edge, '^%S+'), edge)
        end
        call('DEL', P .. 'declares:' .. job)
    end
    for _, each in ipairs(edges) do
        local edge = table.concat(each, ' ')
        call('SADD', P .. 'edges', edge)
        call('SADD', P .. 'children:' .. each[1], edge)
        call('SADD', P .. 'declares:' .. each[5], edge)
    end
    call('INCR', P .. 'family')
end

-- A job, how many of its runs are active, and the newest skip of its ledger.
local function due_of(inc)
    local active = call('ZCARD', P .. 'live:' .. inc) - call('SCARD', P .. 'held:' .. inc)
    return {row(P .. 'job:' .. inc), active, call('ZREVRANGE', P .. 'skips:' .. inc, 0, 0)[1] or false}
end

local function is_alive(node)
    return call('HGET', P .. 'node:' .. node, 'state') == 'alive'
end

-- The order of a line.
local function sooner(a, b)
    return a.rank < b.rank or (a.rank == b.rank and a.id < b.id)
end

-- Runs as their owner gets them, {id, inc} each: their rows, and the definitions of their jobs, each once.
local function claimed(runs)
    local rows, definitions, known = {}, {}, {}
    for n, run in ipairs(runs) do
        rows[n] = call('HGETALL', P .. 'run:' .. run.id)
        if not known[run.inc] then
            known[run.inc] = true
            definitions[#definitions + 1] = run.inc
            definitions[#definitions + 1] = call('HGET', P .. 'job:' .. run.inc, 'definition')
        end
    end
    return {rows, definitions}
end

-- Those of the lanes whose queue is not paused.
local function open_lanes(lanes)
    local paused = {}
    for _, queue in ipairs(call('HKEYS', P .. 'pauses')) do
        paused[queue] = true
    end
    local open = {}
    for _, lane in ipairs(next(paused) and lanes or {}) do
        if not paused['*'] and not paused[string.match(lane, '^[^|]*')] then
            open[#open + 1] = lane
        end
    end
    return next(paused) and open or lanes
end

-- What there is to do: the next moment at which anything is due, and the open lanes with ready runs.
local function survey(past)
    local after = past and string.format('(%.0f', past) or '-inf'
    local due = call('ZRANGEBYSCORE', P .. 'due', after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local waiting = call('ZRANGEBYSCORE', P .. 'waiting', after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local wakes = call('ZRANGEBYSCORE', P .. 'wakes', after, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
    local soonest = math.min(tonumber(due or math.huge), tonumber(waiting or math.huge), tonumber(wakes or math.huge))
    soonest = soonest < math.huge and soonest
    local lanes = {}
    for _, lane in ipairs(call('SMEMBERS', P .. 'lanes')) do
        if call('EXISTS', P .. 'ready:' .. lane) == 1 then
            lanes[#lanes + 1] = lane
        else
            call('SREM', P .. 'lanes', lane)
        end
    end
    return {soonest, open_lanes(lanes)}
end
