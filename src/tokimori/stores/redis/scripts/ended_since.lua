-- About `limit` ends from behind a place on: when each was written, its tie, and the fields of its run; and where to go on.
local found, seen, from, more = {}, 0, ask.start, true
while more and seen < ask.limit do
    local entry = call('XRANGE', P .. 'ends', from, '+', 'COUNT', 1)[1]
    more = entry and '(' .. entry[1]
    for id in string.gmatch(entry and entry[2][2] or '', '%S+') do
        local run = call('HMGET', P .. 'run:' .. id, unpack(ask.fields))
        found[#found + 1] = run[1] and {entry[1], run} or nil
        seen = seen + 1
    end
    from = more
end
return {found, more or false}
