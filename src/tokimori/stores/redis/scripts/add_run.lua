-- Keep requested runs of one job, all or none: {false, 'made', the lane that it got} for each. Or find the one that
-- answers: {its row}. It is one of the same origin, or that took over what this request asked for before; the newest of
-- its key, if it was made after `since`, holds the key (`held`, and no attempt unless `begun`), or has never started and
-- the request `replaces`; {{false, 'changed'}} if it `expects` another run or payload. Or why there are none: {{false,
-- false}}, {{false, the job's state}} or {{false, 'full', how many may be active}}. `forced_lane` is that of a forced run
-- where the job has none; while runs of it have still to lose their lanes it would lose its own: {{false, 'moving'}}.
local answers, new = {}, {}
for n, born in ipairs(ask.runs) do
    local known = call('HGET', P .. 'origins:' .. born.inc, born.origin)
        or (ask.replaces and call('GET', P .. 'request:' .. born.id))
    local found = known and row(P .. 'run:' .. known)
    answers[n] = found and {found}
    new[#new + 1] = not found and n or nil
end
if #new == 0 then
    return answers
end
local born = ask.runs[new[1]]
local state, lane = unpack(call('HMGET', P .. 'job:' .. born.inc, 'state', 'lane'))
if not lane and state and ask.forced_lane and call('HEXISTS', P .. 'moves', born.inc) == 1 then
    return {{false, 'moving'}}
end
lane = lane or (state and ask.forced_lane)
if not lane then
    return {{false, state}}
end

local function note_expiry(expiry, id)
    if expiry then
        call('HSET', P .. 'document:' .. expiry .. id, 'text', '', 'version', '1')
        call('ZADD', P .. 'documents', 0, expiry .. id)
    end
end

local function put_off(id, was)
    exit(id, born.inc, was.state, was.lane, was.constraint, was.key)
    make_way(born.inc, was.state, was.constraint, was.key)
    local key = P .. 'run:' .. id
    call('HSET', key, 'state', 'waiting', 'nominal', ask.nominal, 'due', born.due, 'priority', ask.priority,
        'rank', born.rank, 'lane', lane, 'details', ask.details or '')
    if not ask.details then
        call('HDEL', key, 'details')
    end
    if ask.payload then
        call('HSET', key, 'payload', ask.payload)
    else
        call('HDEL', key, 'payload')
    end
    if was.constraint then
        call('HDEL', key, 'blocked_on')
    end
    enter(id, born.inc, 'waiting', lane, born.due)
    note_expiry(born.expiry, id)
    call('SET', P .. 'request:' .. born.id, id, 'PX', ask.remembered)
    serve()
end

local made_ahead, newest = false, (ask.since or ask.held or ask.replaces) and newest_of(born.inc, ask.prefix, ask.held)
if newest then
    local key, was = P .. 'run:' .. newest, {}
    was.state, was.lane, was.attempt, was.created, was.constraint, was.key =
        unpack(call('HMGET', key, 'state', 'lane', 'attempt', 'created', 'blocked_on', 'concurrency_key'))
    made_ahead = was.state and tonumber(was.created) >= ask.ahead
    if was.state and (ask.since and tonumber(was.created) > ask.since and not made_ahead
        or ask.held and ask.held[was.state] and (ask.begun or was.attempt == '0')) then
        return {{row(key)}}
    end
    local waits = was.state == 'waiting' or was.state == 'ready' or was.state == 'blocked'
    if waits and ask.replaces and was.attempt == '0' then
        if ask.expects and (ask.expected ~= newest or ask.known ~= (call('HGET', key, 'payload') or nil)) then
            return {{false, 'changed'}}
        end
        put_off(newest, was)
        return {{row(key)}}
    end
end
if ask.expected then
    return {{false, 'changed'}}
end
if not has_room(born.inc, #new) then
    return {{false, 'full', tonumber(call('HGET', P .. 'job:' .. born.inc, 'most_active'))}}
end
if made_ahead then -- by a clock that was ahead: from now on the new one is the newest
    call('HDEL', P .. 'newest:' .. born.inc, ask.prefix)
end
for _, n in ipairs(new) do
    local each = ask.runs[n]
    each.lane, answers[n] = lane, {false, 'made', lane}
    each.row[#each.row + 1], each.row[#each.row + 2] = 'lane', lane
    add(each)
    note_expiry(each.expiry, each.id)
end
return answers
