-- Pause a queue that is not paused; its pause.
call('HSETNX', P .. 'pauses', ask.queue, ask.pause)
return call('HGET', P .. 'pauses', ask.queue)
