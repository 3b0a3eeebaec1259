-- Rows of a kind, by key, of the members of an index from ask.from on, as many members as give enough rows, or at most
-- ask.most: {the last member that was looked at or false, rows}.
local INDEX = {
    semaphores = 'semaphores', skips = 'jobs', deleted_skips = 'deleted', history = 'runs', attempts = 'runs',
    outputs = 'runs', runs = 'live',
}

local found, seen = {}, false
local function keep(...)
    found[#found + 1] = {...}
end

local function keep_run(id)
    local run = P .. 'run:' .. id
    if ask.kind == 'runs' or ENDS[call('HGET', run, 'state')] then
        found[#found + 1] = row(run)
    end
end

local function keep_skips(owner, inc)
    local first = owner == ask.after and '(' .. ask.first or '-inf'
    for _, text in ipairs(call('ZRANGEBYSCORE', P .. 'skips:' .. inc, first, '+inf', 'LIMIT', 0, ask.limit)) do
        keep(owner, inc, text)
    end
end

local READ = {
    semaphores = function(name)
        keep(name, unpack(call('HMGET', P .. 'semaphore:' .. name, 'limit', 'granted', 'rate')))
    end,
    skips = function(job)
        keep_skips(job, call('HGET', P .. 'job_ids', job))
    end,
    deleted_skips = function(deleted)
        local inc = unpadded(string.sub(deleted, 1, 19))
        keep_skips(inc, inc)
    end,
    history = keep_run,
    runs = keep_run,
    attempts = function(id)
        for _, text in ipairs(call('HVALS', P .. 'attempts:' .. id)) do
            keep(text)
        end
    end,
    outputs = function(id)
        for n = 0, tonumber(call('HGET', P .. 'run:' .. id, 'attempt')) do
            if call('EXISTS', P .. 'output:' .. id .. ':' .. n) == 1 then
                keep(id, n)
            end
        end
    end,
}

for _, member in ipairs(call('ZRANGEBYLEX', P .. INDEX[ask.kind], ask.from, '+', 'LIMIT', 0, ask.most)) do
    if #found >= ask.limit then
        break
    end
    seen = member
    READ[ask.kind](member)
end
return {seen, found}
