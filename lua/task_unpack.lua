#!lua
-- Copies the fields by which a step judges a compacted contract to a key of their own, which the step then reads in
-- place of the contract.
-- KEYS[1] copy    unpacked:{p}:<id>
-- ARGV[1] ttl     milliseconds until the copy is gone
-- ARGV[2...] fields  name, value, ...
-- Returns {'unpacked'}
-- Slot    partition of the id
redis.call('HSET', copy, unpack(ARGV, 2))
redis.call('PEXPIRE', copy, ttl)
return {'unpacked'}
