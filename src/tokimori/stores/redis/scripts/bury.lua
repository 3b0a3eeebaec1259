-- Declare a node dead, if it has not beaten since and its observer lives; whether it is dead now.
local key = P .. 'node:' .. ask.dead
local state, beat = unpack(call('HMGET', key, 'state', 'beat'))
if state == 'alive' and tonumber(beat) == ask.beat and is_alive(ask.by) then
    state = 'dead'
    call('HSET', key, 'state', state, 'left', ask.now)
    call('ZREM', P .. 'alive', ask.dead)
    call('ZADD', P .. 'gone', ask.now, ask.dead)
    drop_programs(ask.dead)
    if call('EXISTS', P .. 'owned:' .. ask.dead) == 1 then
        call('SADD', P .. 'dead_owners', ask.dead)
    end
end
return state == 'dead'
