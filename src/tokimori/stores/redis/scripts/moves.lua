-- Stands behind the lines: how the runs of a job follow its change.

-- Give a run the lane of its job, or none. What stands in the line of a key or a semaphore is ready again: its claim finds
-- it the line of today.
local function relane(id, inc, forced_lane, priority_was)
    local run = P .. 'run:' .. id
    local was, state, rank, constraint, key, priority =
        unpack(call('HMGET', run, 'lane', 'state', 'rank', 'blocked_on', 'concurrency_key', 'priority'))
    local lane = was and forced_lane or terms_of(inc).lane
    local is_moved = tonumber(priority) == priority_was and state ~= 'running'
    if is_moved then
        priority = call('HGET', P .. 'job:' .. inc, 'priority')
        rank = string.format('%.0f', rank + (priority_was - priority) * 60000000)
        call('HSET', run, 'priority', priority, 'rank', rank)
    end
    if state == 'blocked' and constraint then
        exit(id, inc, state, was, constraint, key)
        call('HSET', run, 'state', 'ready')
        call('HDEL', run, 'blocked_on')
        enter(id, inc, 'ready', lane, nil, rank)
    elseif state == 'ready' and (is_moved or was ~= lane) then
        exit(id, inc, state, was)
        enter(id, inc, state, lane, nil, rank)
    elseif state == 'blocked' and is_moved then
        call('ZADD', P .. 'blocked:' .. inc, rank, id)
    end
    if lane and was ~= lane then
        call('HSET', run, 'lane', lane)
    elseif was and not lane then
        call('HDEL', run, 'lane')
    end
end

-- Of these runs of a deleted job, those that have not started end.
local function cancel_idle(ids, move)
    local idle = {}
    for _, id in ipairs(ids) do
        if call('HGET', P .. 'run:' .. id, 'state') ~= 'running' then
            idle[#idle + 1] = id
        end
    end
    cancel(idle, move.reason, move.now)
end

-- Those in the line of a changed job are ready again, as far as there is room; whether nobody is left to be woken.
local MOST_MOVED = 500
local function wake_all(inc, move)
    local limit = terms_of(inc).limit
    local woken = serve_job(inc, limit == 0 and MOST_MOVED or math.max(0, math.min(MOST_MOVED, limit - move.woken)))
    move.woken = move.woken + woken
    return woken < MOST_MOVED
end

local function move_some(inc, move)
    flush()
    local ids = call('ZRANGEBYLEX', P .. 'live:' .. inc, move.from, '+', 'LIMIT', 0, MOST_MOVED)
    move.from = ids[MOST_MOVED] and '(' .. ids[MOST_MOVED]
    if move.reason then
        known_terms[inc] = {lane = false, limit = -1, per_key = 1, semaphores = move.semaphores}
        cancel_idle(ids, move)
    else
        for _, id in ipairs(ids) do
            relane(id, inc, move.forced_lane, move.priority_was)
        end
    end
end

-- The runs of a job follow its change, some at a time, so that others get their turn: whoever dies meanwhile leaves the
-- rest to the ticks, and until then no claim takes a run that has another lane than its job. Whether all have; their
-- lines are to be served then.
local function move_runs(inc, move)
    if move.from then
        move_some(inc, move)
    end
    local done = not move.from and (not move.wakes or wake_all(inc, move))
    if not done then
        call('HSET', P .. 'moves', inc, cmsgpack.pack(move))
        return false
    end
    call('HDEL', P .. 'moves', inc)
    for _, wanted in ipairs(move.semaphores) do
        freed.names[wanted[1]] = true
    end
    return true
end

-- To be called before the change. `wakes`: the job may have room for more; `reason` and `now`: it is deleted, and so its
-- runs end. What it wanted until now serves its line, as some of its ready runs may have been woken for that.
local function begin_move(inc, wakes, reason, now, forced_lane, priority_was)
    local move = {
        from = '-', woken = call('SCARD', P .. 'running:' .. inc), semaphores = terms_of(inc).semaphores,
        wakes = wakes, reason = reason, now = now, forced_lane = forced_lane}
    local unfinished = call('HGET', P .. 'moves', inc)
    local before = unfinished and cmsgpack.unpack(unfinished) or {semaphores = {}}
    move.priority_was = priority_was or before.priority_was
    for _, wanted in ipairs(before.semaphores) do
        move.semaphores[#move.semaphores + 1] = wanted
    end
    known_terms[inc] = nil
    return move
end
