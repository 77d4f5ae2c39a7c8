-- take(key, count, window, now) -> allowed (0|1), remaining, reset_ms
-- One place in a sliding log. The list has the times (ms) of the accepted requests, newest first, and never more than
-- `count`, so that no window of that length has more. A refused request leaves no trace, so it does not prolong the wait.
-- A count of 0 means no limit.
local function take(key, count, window, now)
  count, window = tonumber(count), tonumber(window)
  if count == 0 then return 1, 0, 0 end
  local oldest = redis.call('LINDEX', key, -1)
  while oldest and math.abs(now - oldest) >= window do -- also what was counted before the clock was set back
    redis.call('RPOP', key)
    oldest = redis.call('LINDEX', key, -1)
  end
  local used = redis.call('LLEN', key)
  if used >= count then return 0, 0, oldest + window - now end
  redis.call('LPUSH', key, now)
  redis.call('PEXPIRE', key, window)
  return 1, count - used - 1, (oldest or now) + window - now
end
