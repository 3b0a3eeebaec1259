-- Keep a document in place of the version that it replaces, if any. False: there is another one.
local key = P .. 'document:' .. ask.key
local version, text = unpack(call('HMGET', key, 'version', 'text'))
if version == ask.version and text == ask.text then
    return true
end
if version ~= (ask.replaces or false) then
    return false
end
call('HSET', key, 'version', ask.version, 'text', ask.text)
call('ZADD', P .. 'documents', 0, ask.key)
return true
