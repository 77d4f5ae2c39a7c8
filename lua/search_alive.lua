#!lua
-- A heartbeat by which a worker says that it hears requests for a service and can answer them.
-- KEYS[1] workers  search:workers:<service>:{search}
-- ARGV[1] channel  on which it hears them
-- ARGV[2] holds    milliseconds until the worker is asked no more unless it sends another heartbeat
-- Returns {'alive'}
-- Slot    {search}
-- include now
local at = now()
redis.call('ZREMRANGEBYSCORE', workers, '-inf', at)
redis.call('ZADD', workers, at + holds, channel)
redis.call('PEXPIRE', workers, holds)
return {'alive'}
