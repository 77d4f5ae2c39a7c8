#!lua
-- Records the verdict of one attempt to verify an artifact. If the artifact has been settled or has expired in the
-- meantime, nothing changes. If nothing was uploaded, but the client has completed the artifact again, another attempt
-- follows.
-- KEYS[1] artifact  artifact:{p}:<id>
-- KEYS[2] due       artifacts:{p}
-- KEYS[3] sums      artifact-bytes:{p}
-- KEYS[4] events    events:{p}
-- ARGV[1] artifact_id
-- ARGV[2] number    which attempt was verified
-- ARGV[3] verdict   available | rejected | registered (nothing was uploaded yet)
-- ARGV[4] reason    empty for available
-- ARGV[5] life      milliseconds that an available artifact is kept
-- Returns {'settled'} | {'again'} | {'stale'}
-- Slot    partition of the id
-- include now
-- include announce
-- include reject_artifact
-- include count_artifact
local at = now()
local status, attempt, ends, upload_until, again_at =
  unpack(redis.call('HMGET', artifact, 'status', 'attempt', 'expires_at', 'upload_until', 'again_at'))
if status ~= 'verifying' or attempt ~= number or tonumber(ends) <= at then return {'stale'} end

redis.call('HDEL', artifact, 'again_at')
if verdict == 'registered' and again_at then
  redis.call('HSET', artifact, 'completed_at', again_at)
  announce(events, 'artifact.completed', artifact_id, 'attempt', redis.call('HINCRBY', artifact, 'attempt', 1))
  return {'again'}
end
if verdict == 'rejected' then
  reject_artifact(artifact, due, artifact_id, reason, at)
  return {'settled'}
end
local after = tonumber(upload_until)
if verdict == 'available' then
  after = at + life
  redis.call('HSET', artifact, 'available_at', at)
  local client, site, reserved = unpack(redis.call('HMGET', artifact, 'client', 'site', 'reserved'))
  count_artifact(sums, client, site, 0, 0, -(reserved or 0))
  redis.call('HDEL', artifact, 'reserved')
else
  redis.call('HSET', artifact, 'reason', reason)
  redis.call('HDEL', artifact, 'completed_at')
end
redis.call('HSET', artifact, 'status', verdict, 'expires_at', after)
redis.call('ZADD', due, after, artifact_id)
redis.call('SPUBLISH', artifact, verdict)
return {'settled'}
