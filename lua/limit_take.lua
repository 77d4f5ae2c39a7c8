#!lua
-- Takes one place in a client's limit, if there is one. A refused request leaves no trace.
-- KEYS[1] rate    rate:{p}:<kind>:<client>
-- ARGV[1] count   requests allowed in the window; 0 = no limit
-- ARGV[2] window  milliseconds
-- Returns {allowed 0|1, remaining, reset_ms, now}: reset_ms until the next place is free
-- Slot    partition of the client's site, or of the entity that the limit is for
-- include now
-- include take
local at = now()
local allowed, remaining, reset = take(rate, count, window, at)
return {allowed, remaining, reset, at}
