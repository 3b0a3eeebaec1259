-- A document: {text, version}; false, false where there is none of that key.
return call('HMGET', P .. 'document:' .. ask.key, 'text', 'version')
