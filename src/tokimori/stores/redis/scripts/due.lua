-- Enabled jobs whose moment has come, the longest due first.
local due = {}
for n, member in ipairs(call('ZRANGEBYSCORE', P .. 'due', '-inf', ask.now, 'LIMIT', 0, ask.limit)) do
    due[n] = due_of(unpadded(member))
end
return due
