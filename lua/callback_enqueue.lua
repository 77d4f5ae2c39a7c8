#!lua
-- Puts a message under way. If one of its name waits already, that one takes over what the newer event has to tell.
-- Safe to repeat: an event that is under way, was delivered a short while ago, or is older than what is told already,
-- changes nothing.
-- KEYS[1] callback  callback:{p}:<name>
-- KEYS[2] due       callbacks:{p}, names by the time (ms) of their next attempt
-- ARGV[1] name      of the callback
-- ARGV[2] id        webhook-id of the message; of two in one millisecond the longer or greater one is newer
-- ARGV[3] pause     milliseconds between two messages of one name
-- ARGV[4] happened  when, in milliseconds
-- ARGV[5...] fields  url, type, data: name, value, ...
-- Returns {'enqueued'|'merged', time of the next attempt (ms)} | {'known'}
-- Slot    the partition of the entity
-- include now
local at = now()
local told, last, attempt, sent = unpack(redis.call('HMGET', callback, 'id', 'at', 'attempt', 'sent_at'))
local when = attempt and redis.call('ZSCORE', due, name)
if told and (when or not attempt) then
  local later = tonumber(happened) - tonumber(last)
  if later < 0 or (later == 0 and (#id < #told or (#id == #told and id <= told))) then return {'known'} end
end
redis.call('HSET', callback, 'id', id, 'at', happened, unpack(ARGV, 5))
if when then return {'merged', tonumber(when)} end
when = at
if sent then when = math.max(at, sent + pause) end
redis.call('HSET', callback, 'attempt', 0, 'misses', 0, 'since', at)
redis.call('PERSIST', callback)
redis.call('ZADD', due, when, name)
return {'enqueued', when}
