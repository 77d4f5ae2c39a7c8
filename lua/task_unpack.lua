#!lua
-- Puts what a step judges a compacted contract by under a name of its own, for that step to read instead.
-- KEYS[1] copy    unpacked:{p}:<id>
-- ARGV[1] ttl     milliseconds until the copy is gone
-- ARGV[2...] fields  name, value, ...
-- Returns {'unpacked'}
-- Slot    partition of the id
redis.call('HSET', copy, unpack(ARGV, 2))
redis.call('PEXPIRE', copy, ttl)
return {'unpacked'}
