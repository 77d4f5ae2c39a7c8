-- stop_holding(messages, ends, receipt, at, keep, status) -> nothing
-- Stops holding a message at the time `at` (ms): its text is deleted, its place is freed, and its receipt is kept with
-- the final status for `keep` milliseconds. Whoever waits for the receipt is woken.
local function stop_holding(messages, ends, receipt, at, keep, status)
  local seq, place = unpack(redis.call('HMGET', receipt, 'seq', 'place'))
  redis.call('ZREM', ends, place)
  redis.call('XDEL', messages, '0-' .. seq)
  redis.call('HDEL', receipt, 'place')
  redis.call('HSET', receipt, 'status', status, 'settled_at', at)
  redis.call('PEXPIREAT', receipt, at + keep)
  redis.call('SPUBLISH', receipt, status)
end
