#!lua
-- Copies the fields of a compacted contract that a step needs to a separate key, which the step then reads in place of
-- the contract.
-- KEYS[1] copy    unpacked:{p}:<id>
-- ARGV[1] ttl     milliseconds until the copy expires
-- ARGV[2...] fields  name, value, ...
-- Returns {'unpacked'}
-- Slot    partition of the id
redis.call('HSET', copy, unpack(ARGV, 2))
redis.call('PEXPIRE', copy, ttl)
return {'unpacked'}
