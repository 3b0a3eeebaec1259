-- Stands behind the lines: the runs of jobs that depend on others, when runs of those end.

local FOLLOWS = {
    success = {succeeded = true},
    failure = {failed = true},
    always = {succeeded = true, failed = true, cancelled = true},
}

-- The children that follow this end of the job, in the order in which they were added.
local function children_of(job, state)
    local children = {}
    for _, edge in ipairs(call('SMEMBERS', P .. 'children:' .. job)) do
        local _, id, on, joins, by = string.match(edge, '^(%S+) (%S+) (%S+) (%S+) (%S+)')
        local inc = call('HGET', P .. 'job_ids', id)
        if inc and FOLLOWS[on][state] then
            local created = tonumber(call('HGET', P .. 'job:' .. inc, 'created'))
            children[#children + 1] = {id = id, inc = inc, on = on, by = by, joins = tonumber(joins), created = created}
        end
    end
    table.sort(children, function(a, b)
        if a.created ~= b.created then
            return a.created < b.created
        end
        return table.concat({a.id, a.on, a.by}, ' ') < table.concat({b.id, b.on, b.by}, ' ')
    end)
    return children
end

-- Whether the child need not wait for other parents; and the runs that it has waited for. Their ids have a key of their
-- own, as in `rules.new_runs`: older programs count jobs alone.
local function joined(child, parent)
    if child.joins == 0 then
        return true
    end
    local keys = {}
    for n, root in ipairs({child.root, 'r:' .. child.root}) do
        keys[n] = P .. 'arrived:' .. child.inc .. ':' .. root
        call('ZADD', P .. 'arrivals:' .. child.inc, 'GT', parent.ended, root)
    end
    local was_complete = call('SISMEMBER', keys[1], '*') == 1
    if not was_complete then
        call('SADD', keys[1], child.step and parent.id or parent.job)
        call('SADD', keys[2], parent.id)
        if call('SCARD', keys[1]) < child.joins then
            return false
        end
    end
    local runs = call('SMEMBERS', keys[2])
    table.sort(runs)
    for _, key in ipairs(keys) do
        call('DEL', key)
        call('SADD', key, '*')
    end
    return not was_complete, runs
end

-- At the moment of the parent's end: a range of skips that begins at its nominal time would take its place.
local function skip_child(child, ended, reason)
    local known = call('ZRANGEBYSCORE', P .. 'skips:' .. child.inc, ended, ended)[1]
    local count = known and tonumber(string.match(known, '^%S+ %S+ (%S+)')) or 0
    keep_skips(child.inc, {{ended, table.concat({ended, ended, string.format('%d', count + 1), reason}, ' ')}})
end

-- The number from which the ids of a run's children are made, as in `model.ids.child_base`; doubles hold it digit by digit.
local function child_base(id)
    local base = 0
    for digit in string.gmatch(id, '%x') do
        base = (base * 31 + tonumber(digit, 16)) % (2 ^ 48 - 59)
    end
    return base
end

-- The child's run, or where it is paused or parked its skip.
local function bear(child, parent, place, runs)
    local state, lane, key, priority, head_start = unpack(
        call('HMGET', P .. 'job:' .. child.inc, 'state', 'lane', 'concurrency_key', 'priority', 'head_start'))
    if state == 'paused' or state == 'parked' then
        return skip_child(child, parent.ended, state)
    elseif not has_room(child.inc, 1) then
        return skip_child(child, parent.ended, 'full')
    end
    if child.step and call('EXISTS', P .. 'run:' .. child.step.id) == 1 then
        return -- it names a run that there is
    end
    local due = tonumber(parent.ended) + place
    local rank = string.format('%.0f', due - tonumber(head_start))
    local time = string.format('%012x', math.floor(due / 1000))
    local after = string.format('%06x%012x', place, (child_base(parent.id) + place) % 2 ^ 48)
    local step = child.step
    local born = {job = child.id, inc = child.inc, state = 'ready', lane = lane, rank = rank}
    born.id = step and step.id or table.concat({
        string.sub(time, 1, 8), string.sub(time, 9), '7' .. string.sub(after, 1, 3), '8' .. string.sub(after, 4, 6),
        string.sub(after, 7)}, '-')
    born.origin = 'c:' .. ((step or child.joins > 0) and child.root or parent.id)
    local payload = not step and (parent.result or parent.payload) or step and (
        step.payload or step.joins == 0 and parent.result)
    local more = step and step.more or ''
    local details = runs and '{"parents":["' .. table.concat(runs, '","') .. '"]' .. more .. '}'
        or more ~= '' and '{' .. string.sub(more, 2) .. '}'
    born.row = {
        'id', born.id, 'job_id', child.id, 'incarnation', child.inc, 'origin', born.origin, 'nominal', parent.nominal,
        'due', string.format('%.0f', due), 'state', 'ready', 'priority', priority, 'rank', rank,
        'created', parent.ended, 'attempt', 0, 'failures', 0, 'lost', 0, 'token', 0, 'parent_id', parent.id, 'root', parent.root}
    for name, value in pairs({
        lane = lane or nil, payload = payload or nil, concurrency_key = key or nil, details = details or nil}) do
        born.row[#born.row + 1], born.row[#born.row + 2] = name, value
    end
    add(born)
end

-- Where not all children have room every store chooses the same.
local function in_order(a, b)
    if a.child.inc ~= b.child.inc then
        return a.child.inc < b.child.inc
    elseif a.child.root ~= b.child.root then
        return a.child.root < b.child.root
    elseif a.parent.id ~= b.parent.id then
        return a.parent.id < b.parent.id
    end
    return a.place < b.place
end

local OF_STEPS = {succeeded = false, failed = true, waiting = false}

-- The children that the run itself names, of jobs that there still are.
local function steps_of(steps, state)
    local children = {}
    for _, step in ipairs(steps or {}) do
        local inc = call('HGET', P .. 'job_ids', step.job)
        if inc and step.on_failure == OF_STEPS[state] then
            children[#children + 1] = {id = step.job, inc = inc, joins = step.joins, step = step, root = step.id}
        end
    end
    return children
end

-- What follows the end of these runs: the runs of the jobs that depend on theirs, and of the steps that they name.
local function follow(ids, steps)
    local new_runs, has_edges = {}, call('EXISTS', P .. 'edges') == 1
    for _, id in ipairs((has_edges or next(steps or {})) and ids or {}) do
        local parent, state, inc, origin = {id = id}
        parent.job, state, inc, origin, parent.nominal, parent.ended, parent.payload, parent.result, parent.root =
            unpack(call('HMGET', P .. 'run:' .. id, 'job_id', 'state', 'incarnation', 'origin', 'nominal', 'ended',
                'payload', 'result', 'root'))
        if not parent.ended and steps[id] then
            parent.ended = string.format('%.0f', steps[id][1].spawned)
        end
        parent.root = parent.root or (string.sub(origin, 1, 2) == 's:' and origin or id)
        -- another job that has got the id of a deleted one may have children
        if call('EXISTS', P .. 'job:' .. inc) == 1 then
            for n, child in ipairs(has_edges and children_of(parent.job, state) or {}) do
                child.root = parent.root
                new_runs[#new_runs + 1] = {child = child, parent = parent, place = n - 1}
            end
        end
        for n, child in ipairs(steps_of(steps and steps[id], state)) do
            new_runs[#new_runs + 1] = {child = child, parent = parent, place = n - 1}
        end
    end
    table.sort(new_runs, in_order)
    for _, new in ipairs(new_runs) do
        local ready, runs = joined(new.child, new.parent)
        if ready then
            bear(new.child, new.parent, new.place, runs)
        end
    end
end

-- End runs that have not started, order the others to end.
local function cancel(ids, reason, now, ends)
    ends = ends or 'cancelled'
    local ended = {}
    for _, id in ipairs(ids) do
        local run = P .. 'run:' .. id
        local state, inc, lane, origin, constraint, key =
            unpack(call('HMGET', run, 'state', 'incarnation', 'lane', 'origin', 'blocked_on', 'concurrency_key'))
        if state == 'running' then
            call('HSETNX', run, 'cancel', reason)
        elseif not ENDS[state] then
            exit(id, inc, state, lane, constraint, key)
            make_way(inc, state, constraint, key)
            call('HSET', run, 'state', ends, 'error', reason, 'ended', now)
            if constraint then
                call('HDEL', run, 'blocked_on')
            end
            forget(id, inc, origin, ends)
            ended[#ended + 1] = id
        end
    end
    follow(ended)
    serve()
end

