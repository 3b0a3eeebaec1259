-- All pauses, in no order.
return call('HVALS', P .. 'pauses')
