-- submit(task, leases, id, at, review) -> nothing
-- Hands a result in at the time `at` (ms), for its publisher to accept or reject within `review` milliseconds. A lease
-- does not run meanwhile.
-- include due
local function submit(task, leases, id, at, review)
  redis.call('HSET', task, 'status', 'submitted', 'submitted_at', at, 'review_ends_at', at + review)
  redis.call('HDEL', task, 'lease_expires_at')
  due(leases, id, at + review)
end
