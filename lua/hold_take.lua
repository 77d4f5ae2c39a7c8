#!lua
-- Takes one place in a client's limit and one among the things that it may hold at the same time. Either both, or
-- none.
-- KEYS[1] rate   rate:{p}:<kind>:<client>
-- KEYS[2] held   held:{p}:<kind>:<client>
-- KEYS[3] all    held:{p}:<kind>, if those of all clients are counted; else the same as held
-- ARGV[1] count  the limit
-- ARGV[2] window  its milliseconds
-- ARGV[3] most   things held at a time; 0 = any number
-- ARGV[4] life   milliseconds for which the new one counts
-- ARGV[5] name   of the new one
-- Returns {'taken'|'limited', allowed, remaining, reset_ms} | {'quota', allowed, remaining, reset_ms, wait_ms}
-- Slot    partition of the client address
-- include now
-- include take
local at = now()
redis.call('ZREMRANGEBYSCORE', held, '-inf', at)
if most ~= '0' and redis.call('ZCARD', held) >= tonumber(most) then
  local first = redis.call('ZRANGE', held, 0, 0, 'WITHSCORES')
  return {'quota', 1, 0, 0, tonumber(first[2]) - at}
end
local allowed, remaining, reset = take(rate, count, window, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end
if all ~= held then redis.call('ZREMRANGEBYSCORE', all, '-inf', at) end
for _, place in ipairs(all == held and {held} or {held, all}) do
  redis.call('ZADD', place, at + life, name)
  redis.call('PEXPIREAT', place, redis.call('ZRANGE', place, -1, -1, 'WITHSCORES')[2])
end
return {'taken', allowed, remaining, reset}
