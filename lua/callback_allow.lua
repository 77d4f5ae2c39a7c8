#!lua
-- Counts an attempt on behalf of a client and its site, to any receiver, or returns how long the attempt must wait.
-- KEYS[1] all       rate:{p}:callback-site:<site>
-- KEYS[2] own       rate:{p}:callback-client:<client>
-- KEYS[3] waiting   rate:{p}:callback-client-waiting:<client>
-- ARGV[1] id        of the caller, by which it is recognised when it asks again
-- ARGV[2] count     attempts allowed to all clients of the site in the window; 0 = no limit
-- ARGV[3] seconds   the window
-- ARGV[4] most      attempts allowed to one client of the site in the window
-- ARGV[5] longest   the longest wait for earlier callers, in milliseconds
-- Returns {'call', 0, counted at (ms), waited since (ms; 0 = not at all)} | {'wait', ms}
-- Slot    partition of the site
-- include now
-- include share
local at = now()
local wait, since = share(all, own, waiting, id, count, seconds, most, longest, at, at)
if wait > 0 then return {'wait', wait} end
return {'call', 0, at, since}
