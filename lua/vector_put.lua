#!lua
-- Adds the vector of a passage to the index together with the name of the passage: a vector without a name would never
-- be removed.
-- KEYS[1] vector    search:vector:<version>:{p}:<id>:<passage>
-- KEYS[2] passages  search:passages:<version>:{p}:<id>
-- ARGV[1] name      of the passage
-- ARGV[2...] fields  name, value, ... of the vector
-- Returns {'put'}
-- Slot    partition of the entity's id
redis.call('SADD', passages, name)
redis.call('HSET', vector, unpack(ARGV, 2))
return {'put'}
