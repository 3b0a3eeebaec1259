-- Put a job in place of another, if it still is what the caller read: 'replaced' when all its runs have its lane, 'begun'
-- when some have, 'moving' where an earlier change has to be done first: not all that have a lane are forced,
-- or have the old priority.
local key = P .. 'job:' .. ask.inc
local version, state, fired_through, tzdata = unpack(call('HMGET', key, 'version', 'state', 'fired_through', 'tzdata'))
if tonumber(version) ~= ask.old_version or state ~= ask.old_state
    or tonumber(fired_through) ~= ask.old_fired_through then
    return 'other job'
end
if (ask.forced_lane or ask.priority_was) and call('HEXISTS', P .. 'moves', ask.inc) == 1 then
    return 'moving'
end
if ask.edges then
    if ask.family and not is_family(ask.family) then
        return 'other family'
    end
    declare({ask.id}, ask.edges)
end
local move = begin_move(ask.inc, true, nil, nil, ask.forced_lane, ask.priority_was)
call('ZREM', P .. 'queues', (call('HGET', key, 'queue') or '') .. ' ' .. ask.id)
call('ZADD', P .. 'queues', 0, ask.queue .. ' ' .. ask.id)
call('DEL', key)
call('HSET', key, unpack(ask.row))
index(ask.id, ask.inc, tzdata, ask.state, ask.next_due, ask.tzdata)
if ask.put_off then
    call('ZREMRANGEBYSCORE', P .. 'skips:' .. ask.inc, string.format('(%.0f', ask.fired_through), '+inf')
    for _, id in ipairs(call('ZRANGE', P .. 'live:' .. ask.inc, 0, -1)) do
        local run = P .. 'run:' .. id
        local state, due, origin, lane, created = unpack(call('HMGET', run, 'state', 'due', 'origin', 'lane', 'created'))
        local kind = string.sub(origin, 1, 2)
        local has_moment = kind == 's:' or (kind ~= 'c:' and tonumber(due) > tonumber(created))
        if state == 'ready' and tonumber(due) > ask.put_off and has_moment then
            exit(id, ask.inc, 'ready', lane)
            call('HSET', run, 'state', 'waiting')
            enter(id, ask.inc, 'waiting', nil, due)
        end
    end
end
keep_skips(ask.inc, ask.skips)
local done = move_runs(ask.inc, move)
serve()
return done and 'replaced' or 'begun'
