-- finish(task, leases, id, status, at) -> nothing
-- Ends a contract for good: its status becomes `completed` or `canceled` at the time `at` (ms), its lease is over.
local function finish(task, leases, id, status, at)
  redis.call('HSET', task, 'status', status, status .. '_at', at)
  redis.call('HDEL', task, 'lease_expires_at')
  redis.call('ZREM', leases, id)
end
