-- Forget a job, and end its runs that have not started; whether there was one.
local inc = call('HGET', P .. 'job_ids', ask.id)
if not inc then
    return false
end
if call('EXISTS', P .. 'declares:' .. ask.id) == 1 then
    declare({ask.id}, {})
end
call('HDEL', P .. 'job_ids', ask.id)
call('ZREM', P .. 'jobs', ask.id)
index(ask.id, inc, call('HGET', P .. 'job:' .. inc, 'tzdata'), 'deleted')
call('DEL', P .. 'job:' .. inc)
call('ZADD', P .. 'deleted', 0, padded(inc) .. ' ' .. ask.id)
local idle = {}
for _, id in ipairs(call('SMEMBERS', P .. 'live:' .. inc)) do
    if call('HGET', P .. 'run:' .. id, 'state') ~= 'running' then
        idle[#idle + 1] = id
    end
end
cancel(idle, ask.reason, ask.now)
return true
