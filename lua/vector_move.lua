#!lua
-- Moves the vector of a passage out of the index for a while, or back into it.
-- KEYS[1] source  search:vector:<version>:{p}:<id>:<passage>, or search:aside:... of the same passage
-- KEYS[2] target  the other of the two keys
-- ARGV[1] life    milliseconds until the moved vector expires; 0 = never
-- Returns {'moved'} | {'absent'}: there is no vector
-- Slot    partition of the entity's id
if redis.call('EXISTS', source) == 0 then return {'absent'} end
redis.call('RENAME', source, target)
if life == '0' then redis.call('PERSIST', target) else redis.call('PEXPIRE', target, life) end
return {'moved'}
