-- Write each plan whose job still is what it was made from: 1, or {version, fired_through, state, whether its first
-- run is known}.
local function put(key, field, value)
    if value then
        call('HSET', key, field, value)
    else
        call('HDEL', key, field)
    end
end

local answers = {}
for n, plan in ipairs(ask.plans) do
    local key = P .. 'job:' .. plan.inc
    local version, fired_through, state, tzdata =
        unpack(call('HMGET', key, 'version', 'fired_through', 'state', 'tzdata'))
    if tonumber(version or -1) == plan.version and tonumber(fired_through) == plan.fired_from and state == 'enabled'
        and has_room(plan.inc, #plan.runs) then
        answers[n] = 1
        if plan.replaces then
            local scheduled = call('SDIFF', P .. 'scheduled:' .. plan.inc, P .. 'held:' .. plan.inc)
            cancel({unpack(scheduled, 1, 1000)}, ask.reason, ask.now)
        end
        for _, born in ipairs(plan.runs) do
            add(born)
        end
        keep_skips(plan.inc, plan.skips)
        call('HSET', key, 'fired_through', math.max(plan.fired_from, plan.fired_through), 'state', plan.state,
            'anchor', plan.anchor, 'tzdata', plan.tzdata)
        put(key, 'next_due', plan.next_due)
        put(key, 'runs_remaining', plan.runs_remaining)
        index(plan.job, plan.inc, tzdata, plan.state, plan.next_due, plan.tzdata)
    else
        local known = plan.runs[1] and call('EXISTS', P .. 'run:' .. plan.runs[1].id) or 0
        answers[n] = {version, fired_through, state, known}
    end
end
return answers
