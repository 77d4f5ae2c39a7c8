#!lua flags=no-writes
-- Finds what is due in a partition, the longest overdue first: artifacts whose time is over, contracts that have
-- changed by themselves. Nothing is taken: others may find the same, so handling it must be idempotent.
-- KEYS[1] due     artifacts:{p} or leases:{p}, names by the time (ms) at which they are due
-- ARGV[1] limit   names at most
-- Returns {name, ...}
-- Slot    the partition
-- include now
return redis.call('ZRANGEBYSCORE', due, '-inf', now(), 'LIMIT', 0, limit)
