#!lua flags=no-writes
-- Finds contracts of the partition that have changed by themselves, as by the end of a lease, the longest ago first.
-- KEYS[1] leases  leases:{p}
-- ARGV[1] limit   ids at most
-- Returns {id, ...}
-- Slot    the partition
-- include now
return redis.call('ZRANGEBYSCORE', leases, '-inf', now(), 'LIMIT', 0, limit)
