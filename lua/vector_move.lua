#!lua
-- Takes the vector of a passage out of the index, to lie aside for a while, or puts it back.
-- KEYS[1] source  search:vector:<version>:{p}:<id>:<passage>, or search:aside:... of the same
-- KEYS[2] target  the other of the two
-- ARGV[1] life    milliseconds until it is gone; 0 = it stays
-- Returns {'moved'} | {'absent'}: there is none
-- Slot    partition of the entity's id
if redis.call('EXISTS', source) == 0 then return {'absent'} end
redis.call('RENAME', source, target)
if life == '0' then redis.call('PERSIST', target) else redis.call('PEXPIRE', target, life) end
return {'moved'}
