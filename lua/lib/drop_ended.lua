-- drop_ended(set, at) -> nothing
-- Removes the members of a sorted set whose time (ms) was over at the time `at`, the first of a thousand at most: what
-- one client did in a day or a month may be over at once, and a hundred thousand take 20 ms. So others may be left,
-- which count for nothing.
local function drop_ended(set, at)
  local ended = redis.call('ZCOUNT', set, '-inf', at)
  if ended > 0 then redis.call('ZREMRANGEBYRANK', set, 0, math.min(ended, 1000) - 1) end
end
