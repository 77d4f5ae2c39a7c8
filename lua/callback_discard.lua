#!lua flags=allow-oom
-- Removes an undelivered callback for the operator, even one that cannot be read. Allowed when memory is full: it frees
-- memory.
-- KEYS[1] callback  callback:{p}:<name>
-- KEYS[2] due       callbacks:{p}, names by the time (ms) of their next attempt
-- ARGV[1] name      of the callback
-- Returns {'discarded'}
-- Slot    the partition of the entity
redis.call('UNLINK', callback)
redis.call('ZREM', due, name)
return {'discarded'}
