-- Let a queue go on.
return call('HDEL', P .. 'pauses', ask.queue)
