-- lease(task, at) -> nothing
-- Starts or renews the lease of a claim at the time `at` (ms), if the contract was offered with a lease.
local function lease(task, at)
  local length = redis.call('HGET', task, 'lease_ms')
  if length then redis.call('HSET', task, 'lease_expires_at', at + length) end
end
