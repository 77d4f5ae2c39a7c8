#!lua
-- Counts a failure of a URL or an address. From so many in a row on the breaker opens, each time for twice as long.
-- Failures of calls that were under way when it opened do not count.
-- KEYS[1] open      rate:{p}:callback-open:<what is called>
-- KEYS[2] failures  rate:{p}:callback-failures:<what is called>
-- ARGV[1] tolerated  failures in a row that open the breaker
-- ARGV[2] first     milliseconds for which it is open at first
-- ARGV[3] longest   milliseconds for which it is open at most
-- ARGV[4] memory    milliseconds for which failures in a row are remembered
-- Returns {'closed', failures in a row} | {'open', ms}
-- Slot    partition of the pool
if redis.call('GET', open) == 'open' then return {'open', redis.call('PTTL', open)} end
local count = redis.call('INCR', failures)
redis.call('PEXPIRE', failures, memory)
if count < tonumber(tolerated) then return {'closed', count} end
local open_for = math.min(first * 2 ^ (count - tolerated), tonumber(longest))
redis.call('SET', open, 'open', 'PX', string.format('%.0f', open_for))
return {'open', open_for}
