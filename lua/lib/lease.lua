-- lease(task, leases, id, at) -> nothing
-- Starts or renews the lease of a claim at the time `at` (ms), if the contract was offered with a lease.
local function lease(task, leases, id, at)
  local length = redis.call('HGET', task, 'lease_ms')
  if not length then return end
  local ends = at + length
  redis.call('HSET', task, 'lease_expires_at', ends)
  redis.call('ZADD', leases, ends, id)
end
