-- drop_ended(set, at) -> nothing
-- Removes members of a sorted set whose time (ms) was over at the time `at`, the first thousand at most: what one
-- client did in a day or a month may end at once, and to remove a hundred thousand takes 20 ms. So some that have ended
-- may be left; callers do not count them.
local function drop_ended(set, at)
  local ended = redis.call('ZCOUNT', set, '-inf', at)
  if ended > 0 then redis.call('ZREMRANGEBYRANK', set, 0, math.min(ended, 1000) - 1) end
end
