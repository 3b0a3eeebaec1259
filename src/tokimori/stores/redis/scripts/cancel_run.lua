-- End a run that has not started, order one that runs to end; its row.
if call('EXISTS', P .. 'run:' .. ask.id) == 0 then
    return false
end
cancel({ask.id}, ask.reason, ask.now)
return row(P .. 'run:' .. ask.id)
