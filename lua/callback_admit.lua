#!lua
-- Counts a call of a URL or an address on behalf of a publisher, or returns how long the call must wait: while the
-- circuit breaker is open, and while the rate limit of the pool (host or network) is used up. After the breaker was
-- open, one call probes, and all other calls wait until the probe has ended or timed out.
-- KEYS[1] open      rate:{p}:callback-open:<what is called>, exists while the breaker is open or a call probes
-- KEYS[2] failures  rate:{p}:callback-failures:<what is called>
-- KEYS[3] all       rate:{p}:callback:<pool>
-- KEYS[4] own       rate:{p}:callback-of:<pool>:<site of the publisher>
-- KEYS[5] waiting   rate:{p}:callback-waiting:<pool>:<site of the publisher>
-- KEYS[6] blocked   rate:{p}:callback-blocked:<what is called>:<site of the publisher>: calls that wait for the
--                   breaker, apart from those in `waiting`, so that they hold up no other call to the pool
-- ARGV[1] id        of the caller, by which it is recognised when it asks again
-- ARGV[2] count     calls to the pool allowed in the window, for all publishers together; 0 = no limit
-- ARGV[3] seconds   the window
-- ARGV[4] longest   the longest wait for earlier callers, in milliseconds
-- ARGV[5] tolerated  consecutive failures that open the breaker
-- ARGV[6] probe     milliseconds that a probing call may take
-- Returns {'call', consecutive failures so far, counted at (ms), waited since (ms; 0 = not at all)} | {'wait', ms}
-- Slot    partition of the pool
-- include now
-- include share
local at = now()
local left = redis.call('PTTL', open)
if left > tonumber(longest) then -- a breaker is never open for so long: it opened before the clock was set back
  redis.call('DEL', open)
  left = 0
end
local opens = at + math.max(0, left)
local there, elsewhere = waiting, blocked
if opens > at then there, elsewhere = blocked, waiting end
redis.call('ZREM', elsewhere, id)
local wait, since = share(all, own, there, id, count, seconds, 0, longest, at, opens)
if wait > 0 then return {'wait', wait} end
local before = tonumber(redis.call('GET', failures) or 0)
if before >= tonumber(tolerated) then redis.call('SET', open, 'probe', 'PX', probe) end
return {'call', before, at, since}
