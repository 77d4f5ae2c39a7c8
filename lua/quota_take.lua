#!lua
-- Takes one place in a client's limit, and one each in the quotas of the client and of its site: all of them or none. A
-- place in a quota expires, or ends when its name is removed.
-- KEYS[1] rate   rate:{p}:<kind>:<client>
-- KEYS[2] own    held:{p}:<kind>:<client>
-- KEYS[3] site   held:{p}:<kind>:<site of the client>; the same as own if the client is its own site
-- KEYS[4] all    held:{p}:<kind>, if the total of all clients is counted; otherwise the same as own
-- ARGV[1] count  requests allowed in the window; 0 = no limit
-- ARGV[2] seconds  the window
-- ARGV[3] most   things that the client may have; 0 = any number
-- ARGV[4] site_most  things that its site may have; 0 = any number
-- ARGV[5] life   milliseconds after which the place of the new thing ends
-- ARGV[6] name   of the new thing
-- Returns {'taken'|'limited', allowed 0|1, remaining, reset_ms} | {'quota', wait_ms}: the next place in a full quota is
--         free after wait_ms
-- Slot    partition of the client's site
-- include now
-- include take
-- include wait_for_place
-- include hold_place
local at = now()
local quotas = {{own, most}}
if site ~= own then table.insert(quotas, {site, site_most}) end
if all ~= own then table.insert(quotas, {all, 0}) end

local wait = wait_for_place(quotas, life, at)
if wait then return {'quota', wait} end
local allowed, remaining, reset = take(rate, count, seconds, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end
hold_place(quotas, at + life, name)
return {'taken', allowed, remaining, reset}
