#!lua flags=allow-oom
-- Removes a callback under way for the operator, whatever it holds. It runs when memory is full, too, and frees some.
-- KEYS[1] callback  callback:{p}:<name>
-- KEYS[2] due       callbacks:{p}, names by the time (ms) of their next attempt
-- ARGV[1] name      of the callback
-- Returns {'discarded'}
-- Slot    the partition of the entity
redis.call('UNLINK', callback)
redis.call('ZREM', due, name)
return {'discarded'}
