#!lua
-- Whether a URL or an address may be called now on behalf of a publisher; if so, that counts for what shares its
-- rate: its host, its network. After so many failures in a row that the breaker was open, one call at a time finds
-- out whether it works again.
-- KEYS[1] open      rate:{p}:callback-open:<what is called>
-- KEYS[2] failures  rate:{p}:callback-failures:<what is called>
-- KEYS[3] rate      rate:{p}:callback:<host or network>
-- KEYS[4] own       rate:{p}:callback-of:<host or network>:<publisher>
-- KEYS[5] turns     rate:{p}:callback-turns:<host or network>:<publisher>
-- ARGV[1] count     calls allowed in the window, those of all publishers together; 0 = no limit
-- ARGV[2] window    milliseconds
-- ARGV[3] tolerated  failures in a row that open the breaker
-- ARGV[4] probe     milliseconds that one call may take
-- Returns {'call', failures}: those in a row before this call | {'wait', ms}
-- Slot    partition of the host or network
-- include now
-- include share
local at = now()
local wait = share(rate, own, turns, count, window, 0, at, at + math.max(0, redis.call('PTTL', open)))
if wait > 0 then return {'wait', wait} end
local before = tonumber(redis.call('GET', failures) or 0)
if before >= tonumber(tolerated) then redis.call('SET', open, 'probe', 'PX', probe) end
return {'call', before}
