-- Rows of a kind, by key, of the members of an index from ask.from on, as many members as give enough rows, or at most
-- ask.most: {the last member that was looked at or false, rows}.
local INDEX = {skips = 'jobs', history = 'runs', attempts = 'runs', outputs = 'runs', runs = 'live'}

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

local READ = {
    skips = function(job)
        local inc = call('HGET', P .. 'job_ids', job)
        local first = job == ask.job and '(' .. ask.first or '-inf'
        for _, text in ipairs(call('ZRANGEBYSCORE', P .. 'skips:' .. inc, first, '+inf', 'LIMIT', 0, ask.limit)) do
            keep(job, inc, text)
        end
    end,
    history = keep_run,
    runs = keep_run,
    attempts = function(id)
        for _, text in ipairs(call('HVALS', P .. 'attempts:' .. id)) do
            keep(text)
        end
    end,
    outputs = function(id)
        for n = 1, tonumber(call('HGET', P .. 'run:' .. id, 'attempt')) do
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
