#!lua
-- Ends an artifact whose time is over and whose bytes were deleted: gives its bytes back to the quotas, once, and
-- keeps the manifest a while, so that readers learn what became of it.
-- KEYS[1] artifact  artifact:{p}:<id>
-- KEYS[2] due       artifacts:{p}
-- KEYS[3] bytes     artifact-bytes:{p}
-- ARGV[1] id
-- ARGV[2] memory    milliseconds the manifest is kept
-- Returns {'ended'} | {'unchanged'}: its time is not over, or it was ended before
-- Slot    partition of the id
-- include now
local when = redis.call('ZSCORE', due, id)
if not when or tonumber(when) > now() then return {'unchanged'} end
redis.call('ZREM', due, id)
local status, client, size = unpack(redis.call('HMGET', artifact, 'status', 'client', 'byte_size'))
if not status then return {'unchanged'} end

redis.call('HINCRBY', bytes, 'all', -size)
if redis.call('HINCRBY', bytes, client, -size) <= 0 then redis.call('HDEL', bytes, client) end
if status ~= 'rejected' then redis.call('HSET', artifact, 'status', 'expired') end
redis.call('PEXPIRE', artifact, memory)
redis.call('SPUBLISH', artifact, 'expired')
return {'ended'}
