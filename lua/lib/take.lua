-- take(key, count, seconds, now) -> allowed (0|1), remaining, reset_ms
-- Takes one place in a sliding log. The list has the times (ms) of the accepted requests, newest first, and accepts no
-- more than `count` in any `seconds`. A refused request leaves no trace, so it does not prolong the wait.
-- A count of 0 means no limit.
-- include unlogged
local function take(key, count, seconds, now)
  count = tonumber(count)
  if count == 0 then return 1, 0, 0 end
  local window = seconds * 1000
  local function ended(time) -- including requests counted before the clock was set back
    return time and math.abs(now - time) >= window
  end
  local oldest = redis.call('LINDEX', key, -1)
  local some = 1 -- twice as many each time: hundreds can have ended since the last request
  while ended(oldest) do
    while not ended(redis.call('LINDEX', key, -some)) do some = some / 2 end
    unlogged('LTRIM', key, 0, -some - 1)
    some = some * 2
    oldest = redis.call('LINDEX', key, -1)
  end
  local used = redis.call('LLEN', key)
  if used >= count then -- there may be more than `count`, if it was larger before: the surplus must end, too
    return 0, 0, redis.call('LINDEX', key, count - used - 1) + window - now
  end
  unlogged('LPUSH', key, now)
  unlogged('PEXPIRE', key, window)
  return 1, count - used - 1, (oldest or now) + window - now
end
