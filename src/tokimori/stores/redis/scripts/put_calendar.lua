-- Keep named days off, in place of those of that name.
return call('HSET', P .. 'calendars', ask.name, ask.definition)
