#!lua
-- Makes queries use the index version that was built, if that version is complete.
-- KEYS[1] current  search:live:{search}
-- KEYS[2] built    search:target:{search}
-- KEYS[3] backlog  search:backlog:{search}
-- ARGV[1] name     of the version that was built
-- Returns {'switched'} | {'building'}: it is not complete | {'gone'}: another version is being built, or none
-- Slot    {search}
if redis.call('HGET', built, 'name') ~= name then return {'gone'} end
if redis.call('HGET', built, 'filled') ~= '1' or redis.call('ZCARD', backlog) > 0 then return {'building'} end
redis.call('RENAME', built, current)
redis.call('SPUBLISH', current, name)
return {'switched'}
