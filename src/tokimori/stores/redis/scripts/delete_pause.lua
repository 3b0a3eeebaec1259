-- End the pause of a queue.
return call('HDEL', P .. 'pauses', ask.queue)
