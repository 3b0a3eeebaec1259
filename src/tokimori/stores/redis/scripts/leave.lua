-- The node goes, unless it owns runs; whether it is gone.
if is_alive(ask.node) then
    if call('EXISTS', P .. 'owned:' .. ask.node) == 1 then
        return false
    end
    call('HSET', P .. 'node:' .. ask.node, 'state', 'left', 'left', ask.now)
    call('ZREM', P .. 'alive', ask.node)
    call('ZADD', P .. 'gone', ask.now, ask.node)
    drop_programs(ask.node)
end
return true
