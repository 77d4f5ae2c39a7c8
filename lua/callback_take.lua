#!lua
-- Takes callbacks that are due, for one worker alone. What was taken becomes due again after a while, in case that
-- worker dies.
-- KEYS[1] due     callbacks:{p}, names by the time (ms) of their next attempt
-- ARGV[1] hidden  milliseconds for which a taken callback is not due; longer than an attempt may last
-- ARGV[2] limit   callbacks to take, at most
-- Returns {milliseconds until the next one is due, or -1 if there is none, name, ...}
-- Slot    the partition
-- include now
local at = now()
local names = redis.call('ZRANGEBYSCORE', due, '-inf', at, 'LIMIT', 0, limit)
for _, name in ipairs(names) do redis.call('ZADD', due, at + hidden, name) end
local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
return {first[2] and math.max(0, first[2] - at) or -1, unpack(names)}
