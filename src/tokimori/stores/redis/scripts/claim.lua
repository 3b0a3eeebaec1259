-- Give the node ready runs by (rank, id), each if its job has room; one that has none joins the line. Asked again, the
-- same runs.
if not is_alive(ask.node) then
    return {{}, {}}
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

-- The ready runs of a lane, a page at a time: nothing is written while they are read.
local function refill(walk)
    if walk.done then
        return
    end
    local page = call('ZRANGE', walk.key, walk.read, walk.read + PAGE - 1, 'WITHSCORES')
    walk.read = walk.read + PAGE
    walk.done = #page < 2 * PAGE
    walk.page, walk.at = page, 1
end

local function head(walk)
    if walk.at > #walk.page then
        refill(walk)
    end
    local id = walk.page[walk.at]
    return id and {id = id, rank = tonumber(walk.page[walk.at + 1]), lane = walk.lane}
end

local walks = {}
if #taken == 0 then
    for _, lane in ipairs(open_lanes(ask.lanes)) do
        local walk = {lane = lane, key = P .. 'ready:' .. lane, read = 0, page = {}, at = 1}
        walk.head = head(walk)
        walks[#walks + 1] = walk
    end
end

local function next_run()
    local first = nil
    for _, walk in ipairs(walks) do
        if walk.head and (not first or sooner(walk.head, first.head)) then
            first = walk
        end
    end
    if not first then
        return nil
    end
    local run = first.head
    first.at = first.at + 2
    first.head = head(first)
    return run
end

local refused, running, limits = {}, {}, {}
local function fits(inc)
    if not limits[inc] then
        limits[inc] = tonumber(call('HGET', P .. 'job:' .. inc, 'max_running') or -1)
        running[inc] = call('SCARD', P .. 'running:' .. inc)
    end
    return limits[inc] == 0 or running[inc] < limits[inc]
end

local repeated = #taken > 0
for _ = 1, repeated and 0 or ask.limit + ask.most do
    local run = #taken < ask.limit and next_run()
    if not run then
        break
    end
    run.inc, run.token, run.attempt = unpack(call('HMGET', P .. 'run:' .. run.id, 'incarnation', 'token', 'attempt'))
    if fits(run.inc) then
        running[run.inc] = running[run.inc] + 1
        taken[#taken + 1] = run
    else
        refused[#refused + 1] = run
    end
end

if not repeated then
    for _, run in ipairs(taken) do
        local key = P .. 'run:' .. run.id
        exit(run.id, run.inc, 'ready', run.lane)
        if run.attempt ~= '0' then
            call('HDEL', key, 'pid', 'started', 'exit_code', 'signal', 'error')
        end
        call('HSET', key, 'state', 'running', 'node_id', ask.node, 'token', run.token + 1, 'attempt', run.attempt + 1)
        later('SADD', P .. 'running:' .. run.inc, run.id)
        later('HSET', P .. 'owned:' .. ask.node, run.id, ask.id)
    end
    for _, run in ipairs(refused) do
        exit(run.id, run.inc, 'ready', run.lane)
        call('HSET', P .. 'run:' .. run.id, 'state', 'blocked')
        enter(run.id, run.inc, 'blocked', nil, nil, run.rank)
    end
end

table.sort(taken, sooner)
return claimed(taken)
