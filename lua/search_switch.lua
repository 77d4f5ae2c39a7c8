#!lua
-- Makes the generation that was built the one that queries use, once nothing of it is left to be done.
-- KEYS[1] live     search:live:{search}
-- KEYS[2] target   search:target:{search}
-- KEYS[3] backlog  search:backlog:{search}
-- ARGV[1] name     of the generation
-- Returns {'switched'} | {'building'}: not all of it is there | {'gone'}: another one is being built, or none
-- Slot    {search}
if redis.call('HGET', target, 'name') ~= name then return {'gone'} end
if redis.call('HGET', target, 'filled') ~= '1' or redis.call('ZCARD', backlog) > 0 then return {'building'} end
redis.call('RENAME', target, live)
redis.call('SPUBLISH', live, name)
return {'switched'}
