#!lua
-- Records that the backlog has every entity that the index version being built needs, unless another worker was faster
-- and the version is already in use.
-- KEYS[1] built  search:target:{search}
-- ARGV[1] name   of the version
-- Returns {'filled'} | {'gone'}: another version is being built, or none
-- Slot    {search}
if redis.call('HGET', built, 'name') ~= name then return {'gone'} end
redis.call('HSET', built, 'filled', 1)
return {'filled'}
