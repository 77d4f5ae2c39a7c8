-- plan(task, leases, id) -> nothing
-- Schedules when a contract changes by itself next, as its record says: at the earliest of its times, or never. A step
-- does so once, after its own change: in a slot that moves to another server of a cluster, no step can touch a key
-- again that it has emptied. What `lapse` records needs no schedule: the sweep finds that moment still scheduled, and
-- schedules the next one.
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
