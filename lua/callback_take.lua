#!lua
-- Takes callbacks that are due. Each is hidden for a while: if its worker dies, it comes again.
-- KEYS[1] due     callbacks:{p}
-- ARGV[1] hidden  milliseconds for which a taken callback is not due; longer than an attempt may last
-- ARGV[2] limit   callbacks at most
-- Returns {milliseconds until the next is due, or -1 if there is none, name, ...}
-- Slot    the partition
-- include now
local at = now()
local names = redis.call('ZRANGEBYSCORE', due, '-inf', at, 'LIMIT', 0, limit)
for _, name in ipairs(names) do redis.call('ZADD', due, at + hidden, name) end
local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
return {first[2] and math.max(0, first[2] - at) or -1, unpack(names)}
