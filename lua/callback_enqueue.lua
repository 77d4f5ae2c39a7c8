#!lua
-- Puts a callback under way, or lets one that waits tell of the newer event too. Safe to repeat for the
-- same event: it is sent again at worst.
-- KEYS[1] callback  callback:{p}:<name>
-- KEYS[2] due       callbacks:{p}
-- ARGV[1] name      of the callback
-- ARGV[2] id        webhook-id of the message; a new one for each content
-- ARGV[3] pause     milliseconds between two messages of one name
-- ARGV[4...] fields  url, type, at, data: name, value, ...
-- Returns {'enqueued'|'merged', due (ms)}
-- Slot    the partition of the entity
-- include now
local at = now()
local attempt, sent = unpack(redis.call('HMGET', callback, 'attempt', 'sent_at'))
redis.call('HSET', callback, 'id', id, unpack(ARGV, 4))
local when = redis.call('ZSCORE', due, name)
if attempt and when then return {'merged', tonumber(when)} end
when = at
if sent then when = math.max(at, sent + pause) end
redis.call('HSET', callback, 'attempt', 0)
redis.call('PERSIST', callback)
redis.call('ZADD', due, when, name)
return {'enqueued', when}
