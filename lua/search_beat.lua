#!lua
-- Records a heartbeat of a worker that listens for requests to a service and can answer them.
-- KEYS[1] workers  search:workers:<service>:{search}
-- ARGV[1] channel  on which the worker listens
-- ARGV[2] holds    milliseconds after which the worker is no longer asked, unless it sends another heartbeat
-- Returns {'alive'}
-- Slot    {search}
-- include now
local at = now()
redis.call('ZREMRANGEBYSCORE', workers, '-inf', at)
redis.call('ZADD', workers, at + holds, channel)
redis.call('PEXPIRE', workers, holds)
return {'alive'}
