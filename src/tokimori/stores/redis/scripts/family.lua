-- The version of the family, and all edges.
return {tonumber(call('GET', P .. 'family') or 0), call('SMEMBERS', P .. 'edges')}
