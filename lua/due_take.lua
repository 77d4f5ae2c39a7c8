#!lua
-- Takes names that are due in a partition, exclusively for one worker: callbacks, or checks of agents. A taken name
-- becomes due again after a while, in case the worker dies.
-- KEYS[1] due     callbacks:{p} or agents-due:{p}, names by the time (ms) at which they are due
-- ARGV[1] hidden  visibility timeout of a taken name, in milliseconds; longer than its work may take
-- ARGV[2] limit   names to take, at most
-- Returns {milliseconds until the next one is due, or -1 if there is none, name, ...}
-- Slot    the partition
-- include now
local at = now()
local names = redis.call('ZRANGEBYSCORE', due, '-inf', at, 'LIMIT', 0, limit)
for _, name in ipairs(names) do redis.call('ZADD', due, at + hidden, name) end
local first = redis.call('ZRANGE', due, 0, 0, 'WITHSCORES')
return {first[2] and math.max(0, first[2] - at) or -1, unpack(names)}
