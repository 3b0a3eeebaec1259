-- Forget a job, and end its runs that have not started: {'deleted' or 'begun' when all or some of them have, its
-- incarnation}, {'unknown'}, {'other job'} where it is not the one any more that the caller read, or {'parent'} where
-- others run after it.
local inc = call('HGET', P .. 'job_ids', ask.id)
if not inc then
    return {'unknown'}
end
local stamp = table.concat({inc, unpack(call('HMGET', P .. 'job:' .. inc, 'version', 'state'))}, ' ')
if ask.known and ask.known ~= stamp then
    return {'other job'}
end
for _, edge in ipairs(call('SMEMBERS', P .. 'children:' .. ask.id)) do
    local child, declared_by = string.match(edge, '^%S+ (%S+) %S+ %S+ (%S+)$')
    if child == declared_by then
        return {'parent'}
    end
end
declare({ask.id}, {})
call('HDEL', P .. 'job_ids', ask.id)
call('ZREM', P .. 'jobs', ask.id)
call('ZREM', P .. 'queues', (call('HGET', P .. 'job:' .. inc, 'queue') or '') .. ' ' .. ask.id)
index(ask.id, inc, call('HGET', P .. 'job:' .. inc, 'tzdata'), 'deleted')
local move = begin_move(inc, false, ask.reason, ask.now)
if call('EXISTS', P .. 'running:' .. inc) == 1 then
    local version, definition, created = unpack(call('HMGET', P .. 'job:' .. inc, 'version', 'definition', 'created'))
    call('HSET', P .. 'deleted:' .. inc, 'version', version, 'definition', definition, 'created', created,
        'deleted', ask.now)
    call('ZADD', P .. 'tombstones:' .. ask.id, ask.now, inc)
end
call('DEL', P .. 'job:' .. inc)
call('ZADD', P .. 'deleted', 0, padded(inc) .. ' ' .. ask.id)
local done = move_runs(inc, move)
serve()
return {done and 'deleted' or 'begun', inc}
