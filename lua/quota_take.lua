#!lua
-- Takes one place in a client's limit and one among the things that it, and its site, may hold at the same time.
-- Either all, or none.
-- KEYS[1] rate   rate:{p}:<kind>:<client>
-- KEYS[2] own    held:{p}:<kind>:<client>
-- KEYS[3] site   held:{p}:<kind>:<site of the client>; the same as own if the client is its own site
-- KEYS[4] all    held:{p}:<kind>, if those of all clients are counted; else the same as own
-- ARGV[1] count  the limit
-- ARGV[2] window  its milliseconds
-- ARGV[3] most   things the client may hold at a time; 0 = any number
-- ARGV[4] site_most  things its site may hold
-- ARGV[5] life   milliseconds for which the new one counts
-- ARGV[6] name   of the new one
-- Returns {'taken'|'limited', allowed, remaining, reset_ms} | {'quota', allowed, remaining, reset_ms, wait_ms}
-- Slot    partition of the client's site
-- include now
-- include take
local at = now()
local places = {{own, tonumber(most)}}
if site ~= own then table.insert(places, {site, tonumber(site_most)}) end
if all ~= own then table.insert(places, {all, 0}) end

for _, place in ipairs(places) do
  redis.call('ZREMRANGEBYSCORE', place[1], '-inf', at)
  if place[2] > 0 and redis.call('ZCARD', place[1]) >= place[2] then
    local first = redis.call('ZRANGE', place[1], 0, 0, 'WITHSCORES')
    return {'quota', 1, 0, 0, tonumber(first[2]) - at}
  end
end
local allowed, remaining, reset = take(rate, count, window, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end
for _, place in ipairs(places) do
  redis.call('ZADD', place[1], at + life, name)
  redis.call('PEXPIREAT', place[1], redis.call('ZRANGE', place[1], -1, -1, 'WITHSCORES')[2])
end
return {'taken', allowed, remaining, reset}
