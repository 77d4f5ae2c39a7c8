-- finish(task, leases, id, status, at) -> nothing
-- Ends a contract for good: from the time `at` (ms) its status is `completed` or `canceled`, and it has no lease.
local function finish(task, leases, id, status, at)
  redis.call('HSET', task, 'status', status, status .. '_at', at)
  redis.call('HDEL', task, 'lease_expires_at')
  redis.call('ZREM', leases, id)
end
