#!lua
-- Counts bytes for a client and its site. Bytes that are already stored (`owed`) are always counted, new bytes (`size`)
-- only if client and site both have room for them. A negative `owed` takes back bytes that were counted but not stored.
-- A count starts again when its window is over; if the clock was set back, after one whole window from now at the
-- latest.
-- KEYS[1] mine   bytes:{p}:<client>
-- KEYS[2] site   bytes:{p}:<site of the client>; the same as mine if the client is its own site
-- ARGV[1] size   new bytes; 0 = none
-- ARGV[2] owed   bytes that are stored already
-- ARGV[3] most   bytes of the client in a window
-- ARGV[4] site_most  bytes of its site in a window
-- ARGV[5] window  milliseconds
-- Returns {'counted'} | {'over', wait_ms, of_site 0|1}: `size` was not counted, or was 0 and no room is left; of_site
--         1 = the site has no room, not only the client
-- Slot    partition of the client's site
local counts = {{mine, tonumber(most)}}
if site ~= mine then table.insert(counts, {site, tonumber(site_most)}) end

local wait, over
for _, count in ipairs(counts) do
  local used, left = tonumber(redis.call('GET', count[1]) or 0) + owed, redis.call('PTTL', count[1])
  if left > tonumber(window) then
    left = tonumber(window)
    redis.call('PEXPIRE', count[1], left)
  end
  if used + size > count[2] or (size == '0' and used >= count[2]) then
    wait, over = math.max(left, wait or 0, 0), count[1]
  end
end
local added = wait and tonumber(owed) or size + owed
for _, count in ipairs(added ~= 0 and counts or {}) do
  if redis.call('INCRBY', count[1], added) == added then redis.call('PEXPIRE', count[1], window) end
end
if wait then return {'over', wait, over == site and site ~= mine and 1 or 0} end
return {'counted'}
