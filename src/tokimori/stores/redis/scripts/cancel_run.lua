-- End a run that has not started, order one that runs to end; its row. With `unbegun` it ends as skipped, and only if it
-- does not run and has had so many attempts.
if call('EXISTS', P .. 'run:' .. ask.id) == 0 then
    return false
end
local state, attempt = unpack(call('HMGET', P .. 'run:' .. ask.id, 'state', 'attempt'))
if not ask.unbegun then
    cancel({ask.id}, ask.reason, ask.now)
elseif state ~= 'running' and tonumber(attempt) == ask.unbegun then
    cancel({ask.id}, ask.reason, ask.now, 'skipped')
end
return row(P .. 'run:' .. ask.id)
