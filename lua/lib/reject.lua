-- reject(artifact, due, id, reason, at) -> nothing
-- Rejects an artifact at the time `at` (ms). An upload URL cannot be revoked, so the bytes stay counted, and the
-- artifact becomes due for deletion only once no upload can bring them back.
local function reject(artifact, due, id, reason, at)
  redis.call('HSET', artifact, 'status', 'rejected', 'reason', reason)
  redis.call('HDEL', artifact, 'expires_at')
  redis.call('ZADD', due, math.max(at, redis.call('HGET', artifact, 'upload_until')), id)
  redis.call('SPUBLISH', artifact, 'rejected')
end
