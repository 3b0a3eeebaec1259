-- A beat: raise the counter, note which processes began, and tell what concerns the node. False: it is dead.
local MOST_LOOKED_AT, MOST_SERVED = 20, 4

-- Some semaphores for which somebody may wait, in order, from where the tick before stopped.
local function some_awaited()
    local from = call('GET', P .. 'swept')
    local found = call('ZRANGEBYLEX', P .. 'awaited', from and '(' .. from or '-', '+', 'LIMIT', 0, MOST_LOOKED_AT)
    if #found == MOST_LOOKED_AT then
        call('SET', P .. 'swept', found[#found])
    elseif from then
        call('DEL', P .. 'swept')
    end
    return found
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
    for _, name in ipairs(some_awaited()) do
        local line = line_up(name)
        local stuck, busy = is_stuck(line)
        if #line.heads == 0 and not line.program then
            call('ZREM', P .. 'awaited', name)
        elseif stuck and served < MOST_SERVED then
            wake_runs(line, busy)
            served = served + 1
        end
    end
    local moved = call('HRANDFIELD', P .. 'moves') -- any: one that fails keeps no other waiting
    if moved then
        move_runs(moved, cmsgpack.unpack(call('HGET', P .. 'moves', moved)))
    end
    serve()
end

if not is_alive(ask.node) then
    return false
end
call('HINCRBY', P .. 'node:' .. ask.node, 'beat', 1)
if call('EXISTS', P .. 'awaited', P .. 'moves') > 0 then
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
