-- lapse(task, events, leases, id, at) -> status, or nil if this is no contract
-- The status of a contract at the time `at` (ms). A claim whose lease has ended is void. The first step that meets one
-- puts the contract back on offer, together with its own write. Only a claim with a lease has lease_expires_at.
-- include reoffer
-- include tell_task
local function lapse(task, events, leases, id, at)
  local kind, status, ends = unpack(redis.call('HMGET', task, 'kind', 'status', 'lease_expires_at'))
  if kind ~= 'contract' then return nil end
  if not ends or tonumber(ends) > at then return status end
  tell_task(task, events, id, 'expired', 'offered')
  redis.call('HDEL', task, 'claim')
  reoffer(task, leases, id)
  return 'offered'
end
