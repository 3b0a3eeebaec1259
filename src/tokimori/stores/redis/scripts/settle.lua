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
        or run.state == 'waiting' and tonumber(run.token) < change.token -- it waited for what it has spawned
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
-- behind was cleared at its claim. A success leaves its place, and what the run has used up, as they are.
local OF_SUCCESS = {'started', 'ended', 'pid', 'exit_code', 'error', 'details', 'cpu', 'memory', 'result'}
local OF_OTHERS = {
    'started', 'ended', 'pid', 'exit_code', 'signal', 'error', 'details', 'cpu', 'memory', 'due', 'rank', 'failures', 'lost',
    'result'}
local function put(key, change, state, fault)
    local words, size = {'state', state, 'settled_by', ask.by, 'settled_token', change.token}, 6
    change.ended, change.error = ENDS[state] and change.ended, fault
    for _, field in ipairs(state == 'succeeded' and not change.resumes and OF_SUCCESS or OF_OTHERS) do
        if change[field] then
            words[size + 1], words[size + 2] = field, change[field]
            size = size + 2
        end
    end
    call('HSET', key, unpack(words, 1, size))
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
    if run.state == 'running' then
        give_up(id, key, run)
    end
    exit(id, run.inc, run.state)
    if ENDS[state] then
        forget(id, run.inc, run.origin, state)
    else
        enter(id, run.inc, state, run.lane, change.due, change.rank)
    end
    if change.attempt then
        call('HSET', P .. 'attempts:' .. id, change.attempt[1], change.attempt[2])
    end
    if change.output then
        local output = change.output
        call('HSET', P .. 'output:' .. id .. ':' .. output.attempt, 'size', output.size, 'head', output.head,
            'tail', output.tail, 'times', output.times, 'settled', 1)
    end
    return state, fault
end

local function park(job, inc, reason)
    local key = P .. 'job:' .. inc
    local state, tzdata = unpack(call('HMGET', key, 'state', 'tzdata'))
    if state == 'enabled' or state == 'finished' then
        call('HSET', key, 'state', 'parked', 'reason', reason or '', 'by', ask.parked_by)
        local move = begin_move(inc, false)
        call('HDEL', key, 'next_due', 'lane')
        index(job, inc, tzdata, 'parked')
        move_runs(inc, move)
    end
end

local verdicts, ended, parks, steps = {}, {}, {}, {}
for n, change in ipairs(ask.changes) do
    local was, job, inc, owner, token, settled_by, settled_token, cancel, lane, origin, key, holds =
        unpack(call('HMGET', P .. 'run:' .. change.run_id, 'state', 'job_id', 'incarnation', 'node_id', 'token',
            'settled_by', 'settled_token', 'cancel', 'lane', 'origin', 'concurrency_key', 'holds'))
    local run = {
        state = was, job = job, inc = inc, owner = owner, token = token, settled_by = settled_by,
        settled_token = settled_token, cancel = cancel, lane = lane, origin = origin, key = key, holds = holds}
    verdicts[n] = judge(change, run)
    if verdicts[n] == 'applied' then
        local state, fault = write(change, run)
        local spawns = state == 'waiting' and change['then'] and change['then'][1]
        if (ENDS[state] or spawns) and not change.childless then
            ended[#ended + 1] = change.run_id
            steps[change.run_id] = change['then']
        end
        if change.parks and state == 'failed' and call('EXISTS', P .. 'job:' .. run.inc) == 1 then
            parks[#parks + 1] = {run.job, run.inc, fault}
        end
    end
end
follow(ended, steps)
for _, parked in ipairs(parks) do -- after all children
    park(unpack(parked, 1, 3))
end
local served = serve()
for owner in pairs(owners) do
    if call('EXISTS', P .. 'owned:' .. owner) == 0 then
        call('SREM', P .. 'dead_owners', owner)
    end
end
return {served, verdicts}
