#!lua flags=no-writes
-- Finds the artifacts of a partition whose time is over, the longest overdue first.
-- KEYS[1] due     artifacts:{p}
-- ARGV[1] limit   ids at most
-- Returns {id, ...}
-- Slot    the partition
-- include now
return redis.call('ZRANGEBYSCORE', due, '-inf', now(), 'LIMIT', 0, limit)
