#!lua
-- Takes one place in a client's limit, and one each in the quotas of the client and of its site: all of them or none. A
-- place in a quota expires, or ends when its name is removed. Those of a full quota that would last for more than twice
-- as long as any may were taken before the clock was set back, and end as if they had been taken now.
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
-- include drop_ended
local at = now()
local places = {{own, tonumber(most)}}
if site ~= own then table.insert(places, {site, tonumber(site_most)}) end
if all ~= own then table.insert(places, {all, 0}) end

for _, place in ipairs(places) do
  local set, limit = unpack(place)
  drop_ended(set, at)
  local over = limit > 0 and redis.call('ZCOUNT', set, '(' .. at, '+inf') - limit or -1
  if over >= 0 then -- there may be more than `limit`, which was larger before: so many must end, too
    local last = redis.call('ZRANGE', set, '(' .. at, '+inf', 'BYSCORE', 'LIMIT', over, 1, 'WITHSCORES')
    local ends = tonumber(last[2])
    local longest = math.max(tonumber(life), 86400000) -- sessions last as long as each was opened for, a day at most
    local latest = at + 2 * longest
    if ends > latest then
      ends = at + longest
      for _, each in ipairs(redis.call('ZRANGE', set, latest, '+inf', 'BYSCORE', 'LIMIT', 0, 1000)) do
        redis.call('ZADD', set, ends, each)
      end
      redis.call('PEXPIREAT', set, latest)
    end
    return {'quota', ends - at}
  end
end
local allowed, remaining, reset = take(rate, count, seconds, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end
for _, place in ipairs(places) do
  redis.call('ZADD', place[1], at + life, name)
  redis.call('PEXPIREAT', place[1], redis.call('ZRANGE', place[1], -1, -1, 'WITHSCORES')[2])
end
return {'taken', allowed, remaining, reset}
