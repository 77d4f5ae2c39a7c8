-- reoffer(task, leases, id, at, opens) -> nothing
-- Puts a claimed contract back on offer at the time `at` (ms), to be claimed from the time `opens` on (nil = at once).
-- The number of its attempt stays, so that the next claim gets a higher one.
-- include due
local function reoffer(task, leases, id, at, opens)
  redis.call('HSET', task, 'status', 'offered', 'updated_at', at)
  redis.call('HDEL', task, 'assignee_id', 'claimed_at', 'lease_expires_at')
  if opens then redis.call('HSET', task, 'retry_at', opens) end
  due(leases, id, opens, redis.call('HGET', task, 'deadline'))
end
