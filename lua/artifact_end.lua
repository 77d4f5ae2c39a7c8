#!lua flags=allow-oom
-- Ends an artifact whose time is over and whose bytes were deleted. Gives its bytes back to the quotas exactly once,
-- and keeps the manifest for a while, so that readers learn what became of the artifact. Allowed when memory is full:
-- the manifest expires afterwards.
-- KEYS[1] artifact  artifact:{p}:<id>
-- KEYS[2] due       artifacts:{p}
-- KEYS[3] sums      artifact-bytes:{p}
-- ARGV[1] artifact_id
-- ARGV[2] life      milliseconds that the manifest is kept
-- Returns {'ended'} | {'unchanged'}: its time is not over, or it was ended before
-- Slot    partition of the id
-- include now
-- include count_artifact
local when = redis.call('ZSCORE', due, artifact_id)
if not when or tonumber(when) > now() then return {'unchanged'} end
redis.call('ZREM', due, artifact_id)
local status, client, site, size, reserved =
  unpack(redis.call('HMGET', artifact, 'status', 'client', 'site', 'byte_size', 'reserved'))
if not status then return {'unchanged'} end

redis.call('HINCRBY', sums, 'all', -size)
count_artifact(sums, client, site, -size, -1, -(reserved or 0))
if status ~= 'rejected' then redis.call('HSET', artifact, 'status', 'expired') end
redis.call('PEXPIRE', artifact, life)
redis.call('SPUBLISH', artifact, 'expired')
return {'ended'}
