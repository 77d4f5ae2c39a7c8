#!lua
-- Opens a circuit breaker because the receiver asks for a pause. A breaker that is already open for longer is not
-- changed: the receiver may have answered a call that was under way when the breaker opened.
-- KEYS[1] open      rate:{p}:callback-open:<what is called>
-- ARGV[1] pause     milliseconds
-- Returns {'open', ms for which it is open}
-- Slot    partition of the pool
local left = redis.call('GET', open) == 'open' and redis.call('PTTL', open) or 0
if left >= tonumber(pause) then return {'open', left} end
redis.call('SET', open, 'open', 'PX', pause)
return {'open', tonumber(pause)}
