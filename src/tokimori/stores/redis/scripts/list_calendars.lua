-- All named days off, in no order.
return call('HVALS', P .. 'calendars')
