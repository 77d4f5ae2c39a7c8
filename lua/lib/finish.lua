-- finish(task, status, at) -> nothing
-- Ends a contract at the time `at` (ms). Its status is `completed`, `canceled`, `failed` or `expired`, and time no
-- longer changes it.
local function finish(task, status, at)
  redis.call('HSET', task, 'status', status, status .. '_at', at)
  redis.call('HDEL', task, 'lease_expires_at', 'retry_at', 'review_ends_at')
end
