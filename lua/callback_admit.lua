#!lua
-- Whether a host may be called now; if so, that counts. After so many failures in a row that the breaker was
-- open, one call at a time finds out whether the host works again.
-- KEYS[1] open      rate:{p}:callback-open:<host>
-- KEYS[2] failures  rate:{p}:callback-failures:<host>
-- KEYS[3] rate      rate:{p}:callback:<host>
-- ARGV[1] count     calls allowed in the window; 0 = no limit
-- ARGV[2] window    milliseconds
-- ARGV[3] tolerated  failures in a row that open the breaker
-- ARGV[4] probe     milliseconds that one call may take
-- Returns {'call', 0} | {'wait', ms}
-- Slot    partition of the host
-- include now
-- include take
local left = redis.call('PTTL', open)
if left > 0 then return {'wait', left} end
local allowed, _, reset = take(rate, count, window, now())
if allowed == 0 then return {'wait', math.max(reset, 1)} end
if tonumber(redis.call('GET', failures) or 0) >= tonumber(tolerated) then
  redis.call('SET', open, 'probe', 'PX', probe)
end
return {'call', 0}
