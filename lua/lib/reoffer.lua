-- reoffer(task, at, opens) -> nothing
-- Puts a claimed contract back on offer at the time `at` (ms). It can be claimed from the time `opens` on (nil = at
-- once). The contract keeps its attempt number, so that the next claim gets a higher one.
local function reoffer(task, at, opens)
  redis.call('HSET', task, 'status', 'offered', 'updated_at', at)
  redis.call('HDEL', task, 'assignee_id', 'claimed_at', 'lease_expires_at')
  if opens then redis.call('HSET', task, 'retry_at', opens) end
end
