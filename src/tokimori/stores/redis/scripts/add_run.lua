-- Keep a requested run: {false, 'made', the lane that it got}. Or find the one that answers: {its row}. It is one of the
-- same origin, or that took over what this request asked for before; the newest of its key, if it was made after `since`,
-- or has never started and the request `replaces`. Or why there is none: {false, false}, {false, the job's state} or
-- {false, 'full', how many may be active}. `forced_lane` is that of a forced run where the job has none; while runs of the
-- job have still to lose their lanes it would lose its own: {false, 'moving'}.
local born = ask.run
local known = call('HGET', P .. 'origins:' .. born.inc, born.origin)
    or (ask.replaces and call('GET', P .. 'request:' .. born.id))
if known then
    local found = row(P .. 'run:' .. known)
    if found then
        return {found, false, false}
    end
end
local state, lane = unpack(call('HMGET', P .. 'job:' .. born.inc, 'state', 'lane'))
if not lane and state and ask.forced_lane and call('HEXISTS', P .. 'moves', born.inc) == 1 then
    return {false, 'moving', false}
end
lane = lane or (state and ask.forced_lane)
if not lane then
    return {false, state, false}
end

local function put_off(id, was)
    exit(id, born.inc, was.state, was.lane, was.constraint, was.key)
    make_way(born.inc, was.state, was.constraint, was.key)
    local key = P .. 'run:' .. id
    call('HSET', key, 'state', 'waiting', 'nominal', ask.nominal, 'due', born.due, 'priority', ask.priority,
        'rank', born.rank, 'lane', lane)
    if ask.payload then
        call('HSET', key, 'payload', ask.payload)
    else
        call('HDEL', key, 'payload')
    end
    if was.constraint then
        call('HDEL', key, 'blocked_on')
    end
    enter(id, born.inc, 'waiting', lane, born.due)
    call('SET', P .. 'request:' .. born.id, id, 'PX', ask.remembered)
    serve()
end

local newest = (ask.since or ask.replaces) and call('HGET', P .. 'newest:' .. born.inc, ask.prefix)
if newest then
    local key, was = P .. 'run:' .. newest, {}
    was.state, was.lane, was.attempt, was.created, was.constraint, was.key =
        unpack(call('HMGET', key, 'state', 'lane', 'attempt', 'created', 'blocked_on', 'concurrency_key'))
    if was.state and ask.since and tonumber(was.created) > ask.since then
        return {row(key), false, false}
    end
    local waits = was.state == 'waiting' or was.state == 'ready' or was.state == 'blocked'
    if waits and ask.replaces and was.attempt == '0' then
        put_off(newest, was)
        return {row(key), false, false}
    end
end
if not has_room(born.inc, 1) then
    return {false, 'full', tonumber(call('HGET', P .. 'job:' .. born.inc, 'most_active'))}
end
born.lane = lane
born.row[#born.row + 1], born.row[#born.row + 2] = 'lane', lane
add(born)
return {false, 'made', lane}
