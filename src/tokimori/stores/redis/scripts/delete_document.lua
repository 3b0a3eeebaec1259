-- Forget this version of a document. False: it has another one.
local key = P .. 'document:' .. ask.key
local version = call('HGET', key, 'version')
if version and version ~= ask.version then
    return false
end
call('DEL', key)
call('ZREM', P .. 'documents', ask.key)
return true
