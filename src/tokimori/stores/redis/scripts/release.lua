-- Give back what a program holds, or its place in line; whether it had it.
if call('HGET', P .. 'permit:' .. ask.id, 'node_id') ~= ask.node then
    return false
end
drop_permit(ask.id)
serve()
return true
