-- A page of runs, newest first: {the last id that was looked at or false, rows}. It ends with enough runs found, or
-- with enough looked at. Few that wait for their moments, in whose order they stand, are sorted.
local where = ask.job and 'runs:' .. ask.job or 'runs'
if ask.among and call('ZCARD', P .. ask.among) < call('ZCARD', P .. where) then
    where = ask.among
end
local few = ask.waiting and call('ZCARD', P .. 'waiting') <= ask.most and call('ZRANGE', P .. 'waiting', 0, -1)
if few then
    table.sort(few, function(a, b) return a > b end)
end
local from = ask.before and '(' .. ask.before or '+'
local found, seen = {}, false
for _, id in ipairs(few or call('ZREVRANGEBYLEX', P .. where, from, '-', 'LIMIT', 0, ask.most)) do
    if #found == ask.limit then
        return {seen, found}
    end
    if not (few and ask.before) or id < ask.before then
        seen = id
        local state, job = unpack(call('HMGET', P .. 'run:' .. id, 'state', 'job_id'))
        if (not ask.states or ask.states[state]) and (not ask.job or job == ask.job) then
            found[#found + 1] = row(P .. 'run:' .. id)
        end
    end
end
return {seen, found}
