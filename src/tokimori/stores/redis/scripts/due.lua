-- Enabled jobs whose moment has come, the longest due first: those behind the job `after`.
local due = {}
local first = ask.after and (call('ZRANK', P .. 'due', padded(ask.after)) or -1) + 1 or 0
for n, member in ipairs(call('ZRANGEBYSCORE', P .. 'due', '-inf', ask.now, 'LIMIT', first, ask.limit)) do
    due[n] = due_of(unpadded(member))
end
return due
