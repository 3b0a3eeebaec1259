-- Semaphores by name, after one of them, or the one of this name: name, limit, used, how many wait, the first holders
-- {id, node, run, weight, rank, token, since} each, and the rate, what is taken of it, and when the line goes on.
local function holder(name, id, since)
    local run = string.match(id, '^(.-)/')
    if not run then
        local node, weight, rank, token =
            unpack(call('HMGET', P .. 'permit:' .. id, 'node_id', 'weight', 'rank', 'token'))
        return {id, node, false, weight, rank, token, since}
    end
    local node, rank, token, holds = unpack(call('HMGET', P .. 'run:' .. run, 'node_id', 'rank', 'token', 'holds'))
    for each, weight in string.gmatch(holds or '', '(%S+) (%d+)') do
        if each == name then
            return {id, node, run, weight, rank, token, since}
        end
    end
    return nil
end

local function described(name)
    local semaphore, line, holders = semaphore_of(name), line_up(name), {}
    local waiting = call('ZCARD', P .. 'programs:' .. name)
    for _, head in ipairs(line.heads) do
        waiting = waiting + call('ZCARD', head.key)
    end
    local held = call('ZRANGE', P .. 'holders:' .. name, 0, ask.holders - 1, 'WITHSCORES')
    for n = 1, #held, 2 do
        holders[#holders + 1] = holder(name, held[n], held[n + 1])
    end
    local rate = semaphore.rate
    return {name, semaphore.limit, semaphore.used, math.min(waiting, ask.most), holders, rate and rate.text,
        rate and rate.used or 0, call('ZSCORE', P .. 'wakes', name)}
end

local first, last = '-', '+'
if ask.name then
    first, last = '[' .. ask.name, '[' .. ask.name
elseif ask.after ~= '' then
    first = '(' .. ask.after
end
local found = {}
for n, name in ipairs(call('ZRANGEBYLEX', P .. 'semaphores', first, last, 'LIMIT', 0, ask.limit)) do
    found[n] = described(name)
end
return found
