-- The job that had this id and was deleted last, {incarnation, version, definition, created, deleted}, while runs of it run.
for _, inc in ipairs(call('ZREVRANGE', P .. 'tombstones:' .. ask.id, 0, -1)) do
    if call('EXISTS', P .. 'live:' .. inc) == 1 then
        return {inc, unpack(call('HMGET', P .. 'deleted:' .. inc, 'version', 'definition', 'created', 'deleted'))}
    end
end
return false
