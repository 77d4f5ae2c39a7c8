#!lua
-- Puts the terms of a thread where search by text finds them. A document that was made from more replies is
-- never replaced by one made from fewer, whoever is late.
-- KEYS[1] doc     doc:{p}:<id>
-- ARGV[1] seq     newest reply that the terms include; 0 = none; -1 = not the whole body either
-- ARGV[2] forced  1 = also if the same is there already
-- ARGV[3] terms
-- ARGV[4] marks
-- Returns {'put'} | {'same'} | {'older'}
-- Slot    partition of the thread's id
local has = tonumber(redis.call('HGET', doc, 'seq'))
if has and has > tonumber(seq) then return {'older'} end
if has == tonumber(seq) and forced ~= '1' then return {'same'} end
redis.call('HSET', doc, 'seq', seq, 'terms', terms, 'marks', marks)
return {'put'}
