#!lua
-- Notes that the backlog holds every entity that the index version being built needs, unless another worker was faster
-- and that version is in use already.
-- KEYS[1] built  search:target:{search}
-- ARGV[1] name   of the version
-- Returns {'filled'} | {'gone'}: another one is being built, or none
-- Slot    {search}
if redis.call('HGET', built, 'name') ~= name then return {'gone'} end
redis.call('HSET', built, 'filled', 1)
return {'filled'}
