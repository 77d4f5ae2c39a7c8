#!lua
-- Takes one place in a client's limit and in that of its site, if there is one. A refused request leaves no trace.
-- KEYS[1] rate    rate:{p}:<kind>:<client>
-- KEYS[2] site    rate:{p}:<kind>:<site of the client>; the same as rate if the site has no limit of its own
-- ARGV[1] count   requests allowed in the window; 0 = no limit
-- ARGV[2] site_count  those of the site
-- ARGV[3] seconds  the window
-- Returns {allowed 0|1, remaining, reset_ms, now}: reset_ms until the next place is free
-- Slot    partition of the client's site
-- include now
-- include take_both
local at = now()
local allowed, remaining, reset = take_both(rate, site, count, site_count, seconds, at)
return {allowed, remaining, reset, at}
