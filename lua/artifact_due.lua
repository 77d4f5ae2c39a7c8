#!lua flags=no-writes
-- Finds artifacts of the partition whose time is over, the longest ago first.
-- KEYS[1] due     artifacts:{p}
-- ARGV[1] limit   ids at most
-- Returns {id, ...}
-- Slot    the partition
-- include now
return redis.call('ZRANGEBYSCORE', due, '-inf', now(), 'LIMIT', 0, limit)
