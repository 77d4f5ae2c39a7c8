#!lua flags=no-writes
-- Finds names that are due in a partition, the longest overdue first: artifacts whose time is over, or contracts that
-- time alone has changed. Nothing is taken: other workers may find the same names, so handling must be idempotent.
-- KEYS[1] due     artifacts:{p} or leases:{p}, names by the time (ms) at which they are due
-- ARGV[1] limit   names at most
-- Returns {name, ...}
-- Slot    the partition
-- include now
return redis.call('ZRANGEBYSCORE', due, '-inf', now(), 'LIMIT', 0, limit)
