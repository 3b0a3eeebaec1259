-- The node goes, unless it owns runs; whether it is gone.
if is_alive(ask.node) then
    if call('EXISTS', P .. 'owned:' .. ask.node) == 1 then
        return false
    end
    call('ZREM', P .. 'alive', ask.node)
    if call('HGET', P .. 'node:' .. ask.node, 'concurrency') == '0' then
        call('DEL', P .. 'node:' .. ask.node)
    else
        call('HSET', P .. 'node:' .. ask.node, 'state', 'left', 'left', ask.now)
        call('ZADD', P .. 'gone', ask.now, ask.node)
    end
    drop_programs(ask.node)
end
return true
