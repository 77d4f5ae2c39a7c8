#!lua
-- Counts a failure of a URL or an address. From `tolerated` consecutive failures on, each one opens the circuit breaker
-- for twice as long as the last. Failures of calls that were under way when the breaker opened do not count.
-- KEYS[1] open      rate:{p}:callback-open:<what is called>
-- KEYS[2] failures  rate:{p}:callback-failures:<what is called>
-- ARGV[1] tolerated  consecutive failures that open the breaker
-- ARGV[2] first     milliseconds for which it is open the first time
-- ARGV[3] longest   milliseconds for which it is open at most
-- ARGV[4] memory    milliseconds for which consecutive failures are remembered
-- Returns {'closed', consecutive failures} | {'open', ms}
-- Slot    partition of the pool
if redis.call('GET', open) == 'open' then return {'open', redis.call('PTTL', open)} end
local count = redis.call('INCR', failures)
redis.call('PEXPIRE', failures, memory)
if count < tonumber(tolerated) then return {'closed', count} end
local open_for = math.min(first * 2 ^ (count - tolerated), tonumber(longest))
redis.call('SET', open, 'open', 'PX', string.format('%.0f', open_for))
return {'open', open_for}
