#!lua
-- Whether a client may have another callback tried now, whoever receives it; if so, that counts for it and its site.
-- KEYS[1] site      rate:{p}:callback-site:<site>
-- KEYS[2] own       rate:{p}:callback-client:<client>
-- KEYS[3] turns     rate:{p}:callback-client-turns:<client>
-- ARGV[1] count     attempts allowed in the window to all clients of the site; 0 = no limit
-- ARGV[2] window    milliseconds
-- ARGV[3] most      attempts allowed to one client of it
-- Returns {'call', 0} | {'wait', ms}
-- Slot    partition of the site
-- include now
-- include share
local at = now()
local wait = share(site, own, turns, count, window, most, at, at)
return {wait > 0 and 'wait' or 'call', wait}
