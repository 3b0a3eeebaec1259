-- Keep rows as they are; one whose key exists stays as it is.
local function keep_skip(inc, first, text)
    if call('ZCOUNT', P .. 'skips:' .. inc, first, first) == 0 then
        call('ZADD', P .. 'skips:' .. inc, first, text)
    end
end

local WRITE = {
    documents = function(key, text, version)
        if call('EXISTS', P .. 'document:' .. key) == 0 then
            call('HSET', P .. 'document:' .. key, 'text', text, 'version', version)
            call('ZADD', P .. 'documents', 0, key)
        end
    end,
    semaphores = function(name, limit, granted, rate)
        if not semaphore_of(name) then
            make_semaphore(name, limit, granted, rate)
            if rate and string.match(name, '^queue:') then
                call('SADD', P .. 'paced', string.sub(name, 7))
            end
        end
    end,
    skips = keep_skip,
    deleted_jobs = function(inc, job)
        call('ZADD', P .. 'deleted', 0, padded(inc) .. ' ' .. job)
    end,
    deleted_skips = keep_skip,
    runs = function(born, owner)
        add(born)
        if born.state == 'running' then
            later('SADD', P .. 'running:' .. born.inc, born.id)
            if owner then
                later('HSET', P .. 'owned:' .. owner, born.id, '')
            end
            if born.key then
                later('SADD', P .. 'running:' .. born.inc .. ':' .. born.key, born.id)
            end
        end
    end,
    history = function(ended)
        local key = P .. 'run:' .. ended.id
        if call('EXISTS', key) == 0 then
            call('HSET', key, unpack(ended.row))
            later('ZADD', P .. 'runs', 0, ended.id)
            later('ZADD', P .. 'runs:' .. ended.job, 0, ended.id)
            if ended.state ~= 'succeeded' then
                later('ZADD', P .. 'broken', 0, ended.id)
            end
            if string.sub(ended.origin, 1, 2) ~= 's:' then
                call('HSETNX', P .. 'origins:' .. ended.inc, ended.origin, ended.id)
                note_newest(ended.inc, ended.origin, nil, ended.id)
            end
        end
    end,
    attempts = function(id, number, text)
        call('HSETNX', P .. 'attempts:' .. id, number, text)
    end,
    outputs = function(output)
        local key = P .. 'output:' .. output.run_id .. ':' .. output.attempt
        if call('EXISTS', key) == 0 then
            local settled = output.attempt > 0 and {'settled', 1} or {}
            call('HSET', key, 'size', output.size, 'head', output.head, 'tail', output.tail,
                'times', output.times, unpack(settled))
        end
    end,
    arrivals = function(inc, root, parents, latest)
        local key = P .. 'arrived:' .. inc .. ':' .. root
        if call('EXISTS', key) == 0 then
            call('SADD', key, unpack(parents))
            call('ZADD', P .. 'arrivals:' .. inc, latest, root)
        end
    end,
    counts = function(job, key, number)
        call('HSETNX', P .. 'counts:' .. job, key, number)
    end,
}

for _, words in ipairs(ask.rows) do
    WRITE[ask.kind](unpack(words))
end
return true
