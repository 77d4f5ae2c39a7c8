#!lua
-- Opens a breaker because the receiver asks for a pause. One that is open for longer stays so: the answer may be to a
-- call that was under way when it opened.
-- KEYS[1] open      rate:{p}:callback-open:<what is called>
-- ARGV[1] pause     milliseconds
-- Returns {'open', ms for which it is open}
-- Slot    partition of the pool
local left = redis.call('GET', open) == 'open' and redis.call('PTTL', open) or 0
if left >= tonumber(pause) then return {'open', left} end
redis.call('SET', open, 'open', 'PX', pause)
return {'open', tonumber(pause)}
