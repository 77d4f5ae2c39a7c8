-- drop_ended(set, at) -> nothing
-- Removes members of a sorted set whose time (ms) was over at the time `at`, a thousand at most. Very many members may
-- end at once, such as all that one client did in a day or a month, and removing a hundred thousand takes 20 ms. So
-- some that have ended may be left; callers do not count them.
local function drop_ended(set, at)
  local ended = redis.call('ZCOUNT', set, '-inf', at)
  if ended > 0 then redis.call('ZREMRANGEBYRANK', set, 0, math.min(ended, 1000) - 1) end
end
