-- reject_artifact(artifact, due, id, reason, at) -> nothing
-- Rejects an artifact at the time `at` (ms). An upload URL cannot be revoked, so the artifact's bytes stay counted
-- until no upload is possible any more, and are then deleted once more.
local function reject_artifact(artifact, due, id, reason, at)
  redis.call('HSET', artifact, 'status', 'rejected', 'reason', reason)
  redis.call('HDEL', artifact, 'expires_at')
  redis.call('ZADD', due, math.max(at, redis.call('HGET', artifact, 'upload_until')), id)
  redis.call('SPUBLISH', artifact, 'rejected')
end
