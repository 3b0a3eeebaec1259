-- Write each change that still holds: 'applied', 'already applied' or 'lost', in order. A freed place wakes the next.
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
        ended = ENDS[state] and change.ended or nil}
    for field, value in pairs(told) do
        words[#words + 1], words[#words + 2] = field, value
    end
    call('HSET', key, unpack(words))
end

local owners = {}
local function write(change, run)
    local id, key = change.run_id, P .. 'run:' .. change.run_id
    local state, fault = ending(change, run)
    later('SREM', P .. 'running:' .. run.inc, id)
    later('HDEL', P .. 'owned:' .. run.owner, id)
    owners[run.owner] = true
    put(key, change, state, fault)
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

local verdicts, freed = {}, {}
for n, change in ipairs(ask.changes) do
    local run = {}
    run.state, run.inc, run.owner, run.token, run.settled_by, run.settled_token, run.cancel, run.lane,
        run.origin = unpack(call('HMGET', P .. 'run:' .. change.run_id, 'state', 'incarnation', 'node_id', 'token',
            'settled_by', 'settled_token', 'cancel', 'lane', 'origin'))
    verdicts[n] = judge(change, run)
    if verdicts[n] == 'applied' then
        write(change, run)
        freed[run.inc] = (freed[run.inc] or 0) + 1
    end
end
wake(freed)
for owner in pairs(owners) do
    if call('EXISTS', P .. 'owned:' .. owner) == 0 then
        call('SREM', P .. 'dead_owners', owner)
    end
end
return verdicts
