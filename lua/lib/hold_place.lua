-- hold_place(quotas, ends, name) -> nothing
-- Takes a place called `name` in all `quotas` (`wait_for_place`) until the time `ends` (ms).
local function hold_place(quotas, ends, name)
  for _, quota in ipairs(quotas) do
    redis.call('ZADD', quota[1], ends, name)
    redis.call('PEXPIREAT', quota[1], redis.call('ZRANGE', quota[1], -1, -1, 'WITHSCORES')[2])
  end
end
