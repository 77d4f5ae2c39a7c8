-- reoffer(task, leases, id) -> nothing
-- Puts a claimed contract back on offer. The number of its attempt stays, so that the next claim gets a higher one.
local function reoffer(task, leases, id)
  redis.call('HSET', task, 'status', 'offered')
  redis.call('HDEL', task, 'assignee_id', 'claimed_at', 'lease_expires_at')
  redis.call('ZREM', leases, id)
end
