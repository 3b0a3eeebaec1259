-- Write each change that still holds: how many others got a semaphore's units, or their turn for them, and for each change
-- 'applied', 'already applied' or 'lost', in order; and jobs that are parked before all their runs know.
local states = {}
local function state_of(node)
    if states[node] == nil then
        states[node] = call('HGET', P .. 'node:' .. node, 'state')
    end
    return states[node]
end

-- The owner settles its own runs; those of a dead node any living one may.
local function judge(change, run)
    if not run.state then
        return 'lost'
    end
    if run.settled_by == ask.by and tonumber(run.settled_token) == change.token then
        return 'already applied'
    end
    local held = run.state == 'running' and run.owner == change.owner and tonumber(run.token) == change.token
    local allowed = change.owner == ask.by or state_of(change.owner) ~= 'alive'
    return held and allowed and state_of(ask.by) == 'alive' and 'applied' or 'lost'
end

-- An order to cancel, or the job's deletion, may have come after the change was made: the order wins over everything
-- but success; without its job a run does not go on.
local function ending(change, run)
    if change.state == 'succeeded' or change.state == 'cancelled' then
        return change.state, change.error
    elseif run.cancel then
        return 'cancelled', run.cancel
    elseif not ENDS[change.state] and call('EXISTS', P .. 'job:' .. run.inc) == 0 then
        return 'cancelled', ask.deleted
    end
    return change.state, change.error
end

-- Its values replace those of the run; where it knows no start, the one that a tick told stays. What an attempt leaves
-- behind was cleared at its claim.
local function put(key, change, state, fault)
    local words = {
        'state', state, 'due', change.due, 'rank', change.rank, 'failures', change.failures, 'lost', change.lost,
        'settled_by', ask.by, 'settled_token', change.token}
    local told = {
        exit_code = change.exit_code, signal = change.signal, error = fault, started = change.started, pid = change.pid,
        details = change.details,
        ended = ENDS[state] and change.ended or nil, result = state == 'succeeded' and change.result or nil}
    for field, value in pairs(told) do
        words[#words + 1], words[#words + 2] = field, value
    end
    call('HSET', key, unpack(words))
end

-- Its place and its units are free.
local function give_up(id, key, run)
    free_place(run.inc, run.key)
    if run.key then
        later('SREM', P .. 'running:' .. run.inc .. ':' .. run.key, id)
    end
    if run.holds then
        give_back(id, run.holds)
        call('HDEL', key, 'holds')
    end
end

local owners = {}
local function write(change, run)
    local id, key = change.run_id, P .. 'run:' .. change.run_id
    local state, fault = ending(change, run)
    later('SREM', P .. 'running:' .. run.inc, id)
    later('HDEL', P .. 'owned:' .. run.owner, id)
    owners[run.owner] = true
    put(key, change, state, fault)
    give_up(id, key, run)
    if ENDS[state] then
        forget(id, run.inc, run.origin)
    else
        enter(id, run.inc, state, run.lane, change.due, change.rank)
    end
    if change.attempt then
        call('HSET', P .. 'attempts:' .. id, change.attempt[1], change.attempt[2])
    end
    if change.output then
        local output = change.output
        call('HSET', P .. 'output:' .. id .. ':' .. output.attempt, 'size', output.size, 'head', output.head,
            'tail', output.tail, 'settled', 1)
    end
end

local FOLLOWS = {
    success = {succeeded = true},
    failure = {failed = true},
    always = {succeeded = true, failed = true, cancelled = true},
}

-- The children that follow this end of the job, in the order in which they were added.
local function children_of(job, state)
    local children = {}
    for _, edge in ipairs(call('SMEMBERS', P .. 'children:' .. job)) do
        local _, id, on, joins, by = string.match(edge, '^(%S+) (%S+) (%S+) (%S+) (%S+)')
        local inc = call('HGET', P .. 'job_ids', id)
        if inc and FOLLOWS[on][state] then
            local created = tonumber(call('HGET', P .. 'job:' .. inc, 'created'))
            children[#children + 1] = {id = id, inc = inc, on = on, by = by, joins = tonumber(joins), created = created}
        end
    end
    table.sort(children, function(a, b)
        if a.created ~= b.created then
            return a.created < b.created
        end
        return table.concat({a.id, a.on, a.by}, ' ') < table.concat({b.id, b.on, b.by}, ' ')
    end)
    return children
end

-- Whether the child need not wait for other parents.
local function joined(child, parent)
    if child.joins == 0 then
        return true
    end
    local key = P .. 'arrived:' .. child.inc .. ':' .. parent.root
    call('ZADD', P .. 'arrivals:' .. child.inc, 'GT', parent.ended, parent.root)
    if call('SISMEMBER', key, '*') == 1 then
        return false
    end
    call('SADD', key, parent.job)
    if call('SCARD', key) < child.joins then
        return false
    end
    call('DEL', key)
    call('SADD', key, '*')
    return true
end

-- At the moment of the parent's end: a range of skips that begins at its nominal time would take its place.
local function skip_child(child, ended, reason)
    local known = call('ZRANGEBYSCORE', P .. 'skips:' .. child.inc, ended, ended)[1]
    local count = known and tonumber(string.match(known, '^%S+ %S+ (%S+)')) or 0
    keep_skips(child.inc, {{ended, table.concat({ended, ended, string.format('%d', count + 1), reason}, ' ')}})
end

-- The number from which the ids of a run's children are made, as in `model.ids.births_of`; doubles hold it digit by digit.
local function births_of(id)
    local births = 0
    for digit in string.gmatch(id, '%x') do
        births = (births * 16 + tonumber(digit, 16)) % (2 ^ 48 - 59)
    end
    return births
end

-- The child's run, or where it is paused or parked its skip.
local function bear(child, parent, place)
    local state, lane, key, priority, head_start = unpack(
        call('HMGET', P .. 'job:' .. child.inc, 'state', 'lane', 'concurrency_key', 'priority', 'head_start'))
    if state == 'paused' or state == 'parked' then
        return skip_child(child, parent.ended, state)
    elseif not has_room(child.inc, 1) then
        return skip_child(child, parent.ended, 'full')
    end
    local due = tonumber(parent.ended) + place
    local rank = string.format('%.0f', due - tonumber(head_start))
    local time = string.format('%012x', math.floor(due / 1000))
    local after = string.format('%012x%06x', births_of(parent.id), place)
    local born = {job = child.id, inc = child.inc, state = 'ready', lane = lane, rank = rank}
    born.id = table.concat({
        string.sub(time, 1, 8), string.sub(time, 9), '7' .. string.sub(after, 1, 3), '8' .. string.sub(after, 4, 6),
        string.sub(after, 7)}, '-')
    born.origin = 'c:' .. (child.joins > 0 and parent.root or parent.id)
    born.row = {
        'id', born.id, 'job_id', child.id, 'incarnation', child.inc, 'origin', born.origin, 'nominal', parent.nominal,
        'due', string.format('%.0f', due), 'state', 'ready', 'priority', priority, 'rank', rank,
        'created', parent.ended, 'attempt', 0, 'failures', 0, 'lost', 0, 'token', 0, 'parent_id', parent.id, 'root', parent.root}
    for name, value in pairs({
        lane = lane or nil, payload = parent.result or parent.payload or nil, concurrency_key = key or nil}) do
        born.row[#born.row + 1], born.row[#born.row + 2] = name, value
    end
    add(born)
end

local moving = {}
local function park(job, inc, reason)
    local key = P .. 'job:' .. inc
    local state, tzdata = unpack(call('HMGET', key, 'state', 'tzdata'))
    if state == 'enabled' or state == 'finished' then
        call('HSET', key, 'state', 'parked', 'reason', reason or '', 'by', ask.parked_by)
        local move = begin_move(inc, false)
        call('HDEL', key, 'next_due', 'lane')
        index(job, inc, tzdata, 'parked')
        if not move_runs(inc, move) then
            moving[#moving + 1] = inc
        end
    end
end

-- What follows the end of a run: the runs of the jobs that depend on its job. Its own job is parked after all of them.
local births, parks = {}, {}
local function follow(change)
    local parent = {id = change.run_id}
    local job, state, inc, origin, fault
    job, state, inc, origin, fault, parent.nominal, parent.ended, parent.payload, parent.result, parent.root =
        unpack(call('HMGET', P .. 'run:' .. change.run_id, 'job_id', 'state', 'incarnation', 'origin', 'error',
            'nominal', 'ended', 'payload', 'result', 'root'))
    if call('EXISTS', P .. 'job:' .. inc) == 0 then
        return -- another job that has got the id of a deleted one may have children
    end
    parent.root = parent.root or (string.sub(origin, 1, 2) == 's:' and origin or parent.id)
    parent.job = job
    for n, child in ipairs(change.childless and {} or children_of(job, state)) do
        births[#births + 1] = {child = child, parent = parent, place = n - 1}
    end
    if change.parks and state == 'failed' then
        parks[#parks + 1] = {job, inc, fault}
    end
end

-- Where not all children have room every store chooses the same.
local function in_order(a, b)
    if a.child.inc ~= b.child.inc then
        return a.child.inc < b.child.inc
    elseif a.parent.root ~= b.parent.root then
        return a.parent.root < b.parent.root
    elseif a.parent.id ~= b.parent.id then
        return a.parent.id < b.parent.id
    end
    return a.place < b.place
end

local families = call('EXISTS', P .. 'edges') == 1
local verdicts, ended = {}, {}
for n, change in ipairs(ask.changes) do
    local run = {}
    run.state, run.inc, run.owner, run.token, run.settled_by, run.settled_token, run.cancel, run.lane,
        run.origin, run.key, run.holds = unpack(call('HMGET', P .. 'run:' .. change.run_id, 'state', 'incarnation',
            'node_id', 'token', 'settled_by', 'settled_token', 'cancel', 'lane', 'origin', 'concurrency_key', 'holds'))
    verdicts[n] = judge(change, run)
    if verdicts[n] == 'applied' then
        write(change, run)
        if (families or change.parks) and ENDS[call('HGET', P .. 'run:' .. change.run_id, 'state')] then
            ended[#ended + 1] = change
        end
    end
end
for _, change in ipairs(ended) do
    follow(change)
end
table.sort(births, in_order)
for _, birth in ipairs(births) do
    if joined(birth.child, birth.parent) then
        bear(birth.child, birth.parent, birth.place)
    end
end
for _, parked in ipairs(parks) do
    park(unpack(parked, 1, 3))
end
local served = serve()
for owner in pairs(owners) do
    if call('EXISTS', P .. 'owned:' .. owner) == 0 then
        call('SREM', P .. 'dead_owners', owner)
    end
end
return {served, verdicts, moving}
