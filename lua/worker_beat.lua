#!lua flags=allow-oom
-- Notes that a worker lives, and tells which others have fallen silent.
-- It is a few bytes and tells where work was left behind, so it runs when no memory is left.
-- KEYS[1] workers  workers:{workers}
-- ARGV[1] name     of the worker
-- ARGV[2] silent   milliseconds after which a worker has fallen silent
-- ARGV[3] gone     milliseconds after which it is no longer told of
-- Returns {name, ...}
-- Slot    that of the key
-- include now
local time = now()
redis.call('ZADD', workers, time, name)
redis.call('ZREMRANGEBYSCORE', workers, '-inf', time - gone)
redis.call('PEXPIRE', workers, gone)
return redis.call('ZRANGEBYSCORE', workers, '-inf', time - silent)
