-- Documents by key, from ask.from on, while their keys begin with ask.begin: {key, text, version} of each. No key has a
-- byte 255.
local last = '(' .. ask.begin .. '\255'
local found = {}
for n, key in ipairs(call('ZRANGEBYLEX', P .. 'documents', ask.from, last, 'LIMIT', 0, ask.limit)) do
    found[n] = {key, unpack(call('HMGET', P .. 'document:' .. key, 'text', 'version'))}
end
return found
