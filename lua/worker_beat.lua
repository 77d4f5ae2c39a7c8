#!lua flags=allow-oom
-- Records a heartbeat of a worker, and returns the workers that have fallen silent. Allowed when memory is full: it
-- writes only a few bytes, and the work of dead workers must be taken over so that memory is freed.
-- KEYS[1] workers  workers:{workers}, names by the time of their last heartbeat (ms)
-- ARGV[1] name     of the worker
-- ARGV[2] silent   milliseconds without a heartbeat after which a worker has fallen silent
-- ARGV[3] forget   milliseconds without a heartbeat after which a worker is removed from the list
-- Returns {name, ...} of the silent workers
-- Slot    that of the key
-- include now
local time = now()
for _, other in ipairs(redis.call('ZRANGEBYSCORE', workers, '(' .. time, '+inf')) do
  redis.call('ZADD', workers, time, other)  -- the clock was set back: its silence begins now
end
redis.call('ZADD', workers, time, name)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', time - forget)
redis.call('PEXPIRE', workers, forget)
return redis.call('ZRANGEBYSCORE', workers, '-inf', time - silent)
