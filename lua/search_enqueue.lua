#!lua
-- Queues posts to be indexed, so that the sites they came from take turns (start-time fair queueing). A post starts
-- where the last post of its site ends, or at the head of the queue if that is later, and ends its weight after its
-- start.
-- KEYS[1] queue   search:pending:{search}: posts by their start (below 0), or by the end of their lease (ms)
-- KEYS[2] turns   search:turns:{search}: the end of the last post of each site
-- ARGV[1...] posts  site, weight, name, ...
-- Returns {'queued'}
-- Slot    {search}
local origin = -2 ^ 52  -- the earliest start: far below 0, and whole numbers are exact from here on

-- Posts that were given back start before the origin and do not show how far the turns have come.
local least = string.format('%.0f', origin)
local first = redis.call('ZRANGE', queue, least, '(0', 'BYSCORE', 'LIMIT', 0, 1, 'WITHSCORES')[2]
if not first then redis.call('DEL', turns) end  -- no post waits, so all sites start equal
local head = tonumber(first or origin)
for index = 1, #ARGV, 3 do
  local site, weight, name = ARGV[index], ARGV[index + 1], ARGV[index + 2]
  local start = math.max(head, tonumber(redis.call('HGET', turns, site) or origin))
  local known = redis.call('ZSCORE', queue, name)
  -- A leased post has changed meanwhile and is queued again; a waiting post keeps its place.
  if not known or tonumber(known) >= 0 then
    redis.call('ZADD', queue, start, name)
    redis.call('HSET', turns, site, string.format('%.0f', start + weight))
  end
end
redis.call('PEXPIRE', turns, 86400000)
return {'queued'}
