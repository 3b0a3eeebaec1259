-- Enabled jobs of a share whose moment has come, the longest due first: those behind the job `after`.
local due = {}
local first = ask.after and (call('ZRANK', P .. 'due', padded(ask.after)) or -1) + 1 or 0
repeat
    local members = call('ZRANGEBYSCORE', P .. 'due', '-inf', ask.now, 'LIMIT', first, ask.limit)
    for _, member in ipairs(members) do
        -- The last digits: a number of Lua's has room for no more than 15.
        if #due < ask.limit and tonumber(string.sub(member, -9)) % ask.of == ask.part then
            due[#due + 1] = due_of(unpadded(member))
        end
    end
    first = first + #members
until #due == ask.limit or #members < ask.limit
return due
