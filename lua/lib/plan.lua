-- plan(task, leases, id) -> nothing
-- Schedules the next change of a contract that time alone causes: at the earliest of the times in its record, or never.
-- A step calls this once, after its own change: in a slot that moves to another server of a cluster, no step can touch
-- a key again that it has emptied. After `lapse` alone it is not needed: the sweep finds the old time still scheduled,
-- and schedules the next one.
local function plan(task, leases, id)
  local status, ends, opens, review, deadline = unpack(redis.call('HMGET', task,
    'status', 'lease_expires_at', 'retry_at', 'review_ends_at', 'deadline'))
  local expires = status == 'offered' or status == 'claimed' or status == 'in_progress'
  local first
  for _, at in ipairs({ends, opens, review, expires and deadline}) do
    if at and (not first or tonumber(at) < first) then first = tonumber(at) end
  end
  if first then redis.call('ZADD', leases, first, id) else redis.call('ZREM', leases, id) end
end
