-- lease(task, leases, id, at) -> nothing
-- Starts or renews the lease of a claim at the time `at` (ms), if the contract was offered with a lease.
-- include due
local function lease(task, leases, id, at)
  local length, deadline = unpack(redis.call('HMGET', task, 'lease_ms', 'deadline'))
  local ends = length and at + length
  if ends then redis.call('HSET', task, 'lease_expires_at', ends) end
  if ends or deadline then due(leases, id, ends, deadline) end
end
