-- A beat: raise the counter, note which processes began, and tell what concerns the node. False: it is dead.
if not is_alive(ask.node) then
    return false
end
call('HINCRBY', P .. 'node:' .. ask.node, 'beat', 1)
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
