-- Forget named days off.
return call('HDEL', P .. 'calendars', ask.name)
