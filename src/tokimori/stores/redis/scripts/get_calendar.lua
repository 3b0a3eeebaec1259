-- Named days off, as JSON.
return call('HGET', P .. 'calendars', ask.name)
