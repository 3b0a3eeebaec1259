-- A beat: raise the counter, note which processes began, and tell what concerns the node. False: it is dead.
local MOST_LOOKED_AT, MOST_SERVED = 20, 4

-- Some members of an index, in order, from where the tick before stopped.
local function some_of(index)
    local from = call('HGET', P .. 'swept', index)
    local found = call('ZRANGEBYLEX', P .. index, from and '(' .. from or '-', '+', 'LIMIT', 0, MOST_LOOKED_AT)
    if #found == MOST_LOOKED_AT then
        call('HSET', P .. 'swept', index, found[#found])
    elseif from then
        call('HDEL', P .. 'swept', index)
    end
    return found
end

-- Older programs settle runs, claim them again, and bury nodes, without a thought for what they hold.
local function drop_left_behind(name)
    for _, id in ipairs(call('ZRANDMEMBER', P .. 'holders:' .. name, 2)) do
        local run = string.match(id, '^(.-)/')
        local state, holds, token, claimed =
            unpack(call('HMGET', P .. 'run:' .. (run or ''), 'state', 'holds', 'token', 'holds_token'))
        if run and holds and (state ~= 'running' or (claimed and claimed ~= token)) then
            give_back(run, holds)
            call('HDEL', P .. 'run:' .. run, 'holds', 'holds_token')
        elseif not run and not is_alive(call('HGET', P .. 'permit:' .. id, 'node_id')) then
            drop_permit(id)
        end
    end
end

-- Whether somebody waits though nothing stands in the way, and nothing in the lane is ready (so after an import), and
-- which lanes are busy.
local function is_stuck(line)
    local stuck, busy = false, {}
    for _, head in ipairs(line.heads) do
        busy[head.lane] = call('EXISTS', P .. 'ready:' .. head.lane) == 1
        if not busy[head.lane] and is_served(line, head.rank, units_wanted(line.name, head.id), line.free) then
            stuck = true
        end
    end
    return stuck, busy
end

local function sweep()
    local served = 0
    for _, name in ipairs(some_of('awaited')) do
        local line = line_up(name)
        drop_left_behind(name)
        local stuck, busy = is_stuck(line)
        if #line.heads == 0 and not line.program then
            call('ZREM', P .. 'awaited', name)
        elseif stuck and served < MOST_SERVED then
            wake_runs(line, busy)
            served = served + 1
        end
    end
    for _, each in ipairs(some_of('awaited_keys')) do
        local inc, key = string.match(each, '^(%d+) (.*)$')
        local running = P .. 'running:' .. inc .. ':' .. key
        local id = call('SRANDMEMBER', running)
        if call('EXISTS', P .. 'blocked:' .. inc .. ':' .. key) == 0 then
            call('ZREM', P .. 'awaited_keys', each)
        elseif id and call('HGET', P .. 'run:' .. id, 'state') ~= 'running' then
            call('SREM', running, id)
            freed.keys[each] = {inc, key}
        end
    end
    local moved = call('HKEYS', P .. 'moves')[1]
    if moved then
        move_runs(moved, cmsgpack.unpack(call('HGET', P .. 'moves', moved)))
    end
    serve()
end

if not is_alive(ask.node) then
    return false
end
call('HINCRBY', P .. 'node:' .. ask.node, 'beat', 1)
if call('EXISTS', P .. 'awaited', P .. 'awaited_keys', P .. 'moves') > 0 then
    sweep()
end
for _, began in ipairs(ask.started) do
    local id, token, pid, at = unpack(began)
    if call('HEXISTS', P .. 'owned:' .. ask.node, id) == 1
        and tonumber(call('HGET', P .. 'run:' .. id, 'token')) == token then
        call('HSET', P .. 'run:' .. id, 'pid', pid, 'started', at)
    end
end
local owned, peers = {}, {}
for n, id in ipairs(call('HKEYS', P .. 'owned:' .. ask.node)) do
    local token, order = unpack(call('HMGET', P .. 'run:' .. id, 'token', 'cancel'))
    owned[n] = {id, tonumber(token), order}
end
for _, id in ipairs(call('ZRANGE', P .. 'alive', 0, -1)) do
    if id ~= ask.node then
        peers[#peers + 1] = {id, tonumber(call('HGET', P .. 'node:' .. id, 'beat'))}
    end
end
return {call('TIME'), owned, peers, call('EXISTS', P .. 'dead_owners'), survey()}
