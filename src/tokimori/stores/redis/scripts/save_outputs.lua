-- Keep what running attempts have written so far; the newest wins, and nothing overwrites a settled output.
for _, output in ipairs(ask.outputs) do
    local key = P .. 'output:' .. output.run_id .. ':' .. output.attempt
    local size, settled = unpack(call('HMGET', key, 'size', 'settled'))
    if not settled and tonumber(size or 0) <= output.size then
        call('HSET', key, 'size', output.size, 'head', output.head, 'tail', output.tail,
            'times', output.times)
    end
end
return true
