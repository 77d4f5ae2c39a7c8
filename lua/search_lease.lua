#!lua
-- Hands out threads that are due to be indexed. They are due again if they are not done when the lease ends.
-- KEYS[1] queue   search:pending:{search} or search:backlog:{search}
-- ARGV[1] most    threads
-- ARGV[2] lease   milliseconds
-- Returns {'leased', until_ms, id, ...}
-- Slot    {search}
-- include now
local at = now()
local ends = string.format('%.0f', at + lease)
local due = redis.call('ZRANGE', queue, '-inf', at, 'BYSCORE', 'LIMIT', 0, most)
for _, id in ipairs(due) do redis.call('ZADD', queue, ends, id) end
return {'leased', tonumber(ends), unpack(due)}
