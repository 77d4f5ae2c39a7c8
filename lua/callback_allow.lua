#!lua
-- Counts an attempt on behalf of a client and its site, whoever the receiver is, or says how long it has to wait.
-- KEYS[1] site      rate:{p}:callback-site:<site>
-- KEYS[2] own       rate:{p}:callback-client:<client>
-- KEYS[3] turns     rate:{p}:callback-client-turns:<client>
-- ARGV[1] count     attempts allowed to all clients of the site in the window; 0 = no limit
-- ARGV[2] window    milliseconds
-- ARGV[3] most      attempts allowed to one client of it
-- Returns {'call', 0} | {'wait', ms}
-- Slot    partition of the site
-- include now
-- include share
local at = now()
local wait = share(site, own, turns, count, window, most, at, at)
return {wait > 0 and 'wait' or 'call', wait}
