-- wait_for_place(quotas, life, at) -> milliseconds until a full one of the `quotas` has a place | nil: none is full
-- Each quota is {set, most}: the names of things by the times at which their places end, and the maximum number of
-- places (0 = any number). A place in a full quota that would last for more than twice `life` and for more than two
-- days was taken before the clock was set back, and ends as if it had been taken now.
-- include drop_ended
local function wait_for_place(quotas, life, at)
  for _, quota in ipairs(quotas) do
    local set, most = unpack(quota)
    drop_ended(set, at)
    most = tonumber(most)
    local over = most > 0 and redis.call('ZCOUNT', set, '(' .. at, '+inf') - most or -1
    if over >= 0 then -- there may be more than `most`, if it was larger before: the surplus must end, too
      local last = redis.call('ZRANGE', set, '(' .. at, '+inf', 'BYSCORE', 'LIMIT', over, 1, 'WITHSCORES')
      local ends = tonumber(last[2])
      local longest = math.max(tonumber(life), 86400000) -- each session has its own life, of a day at most
      local latest = at + 2 * longest
      if ends > latest then
        ends = at + longest
        for _, each in ipairs(redis.call('ZRANGE', set, latest, '+inf', 'BYSCORE', 'LIMIT', 0, 1000)) do
          redis.call('ZADD', set, ends, each)
        end
        redis.call('PEXPIREAT', set, latest)
      end
      return ends - at
    end
  end
end
