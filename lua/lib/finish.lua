-- finish(task, status, at) -> nothing
-- Ends a contract from the time `at` (ms): its status is `completed`, `canceled`, `failed` or `expired`, and it does not
-- change by itself any more.
local function finish(task, status, at)
  redis.call('HSET', task, 'status', status, status .. '_at', at)
  redis.call('HDEL', task, 'lease_expires_at', 'retry_at', 'review_ends_at')
end
