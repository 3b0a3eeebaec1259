-- Units of a semaphore for a program, or a place in its line: {'granted', token}, {'waiting', how many are before it},
-- {'refused', the semaphore's limit}, or {'gone'}: its node.
local permit = P .. 'permit:' .. ask.id
local programs = P .. 'programs:' .. ask.semaphore
if not is_alive(ask.node) then
    return {'gone', false}
end
if call('EXISTS', permit) == 0 then
    local known = semaphore_of(ask.semaphore)
    local limit = known and known.limit or ask.limit or 1
    if ask.weight > limit or (ask.limit and ask.limit ~= limit) then
        return {'refused', limit}
    end
    if not known then
        make_semaphore(ask.semaphore, limit, 0)
    end
    call('HSET', permit, 'semaphore', ask.semaphore, 'node_id', ask.node, 'weight', ask.weight, 'rank', ask.rank,
        'since', ask.now)
    call('SADD', P .. 'permits:' .. ask.node, ask.id)
    call('ZADD', P .. 'awaited', 0, ask.semaphore)
    call('ZADD', programs, ask.rank, ask.id)
    if ask.weight > 1 then
        call('ZADD', P .. 'heavy:' .. ask.semaphore, ask.weight, ask.id)
    end
end

if not call('HGET', permit, 'token') then
    local line = line_up(ask.semaphore)
    if grant_programs(line) > 0 or line.rate then -- a rate says when it goes on
        wake_runs(line, {})
    end
end
local token, rank = unpack(call('HMGET', permit, 'token', 'rank'))
if token then
    return {'granted', tonumber(token)}
end
local ahead = call('ZRANK', programs, ask.id)
for _, head in ipairs(line_up(ask.semaphore).heads) do
    ahead = ahead + call('ZCOUNT', head.key, '-inf', '(' .. rank)
end
return {'waiting', math.min(ahead, ask.most)}
