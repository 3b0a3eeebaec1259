-- Put a job in place of another, if it still is what the caller read; whether it was. Its runs get its lane.
local key = P .. 'job:' .. ask.inc
local version, state, fired_through, tzdata = unpack(call('HMGET', key, 'version', 'state', 'fired_through', 'tzdata'))
if tonumber(version) ~= ask.old_version or state ~= ask.old_state
    or tonumber(fired_through) ~= ask.old_fired_through then
    return false
end
call('DEL', key)
call('HSET', key, unpack(ask.row))
index(ask.id, ask.inc, tzdata, ask.state, ask.next_due, ask.tzdata)
keep_skips(ask.inc, ask.skips)
local live = call('SMEMBERS', P .. 'live:' .. ask.inc)
for _, id in ipairs(live) do
    local run = P .. 'run:' .. id
    local lane, standing, rank = unpack(call('HMGET', run, 'lane', 'state', 'rank'))
    if lane ~= (ask.lane or false) then
        if standing == 'ready' then
            exit(id, ask.inc, standing, lane)
            enter(id, ask.inc, standing, ask.lane, nil, rank)
        end
        if ask.lane then
            call('HSET', run, 'lane', ask.lane)
        else
            call('HDEL', run, 'lane')
        end
    end
end
wake({[ask.inc] = #live})
return true
