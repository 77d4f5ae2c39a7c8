#!lua
-- Queues a message for delivery. If a message of the same name is queued, the newer event replaces its contents. Safe
-- to repeat: an event that is already queued, was recently delivered, or is older than the queued one changes nothing.
-- KEYS[1] callback  callback:{p}:<name>
-- KEYS[2] due       callbacks:{p}, names by the time (ms) of their next attempt
-- KEYS[3] record    callback-record:{p}:<entity>, for the owner of the entity
-- ARGV[1] name      of the callback
-- ARGV[2] id        webhook-id of the message; of two in one millisecond the longer or greater one is newer
-- ARGV[3] pause     milliseconds between two messages of one name
-- ARGV[4] happened  when, in milliseconds
-- ARGV[5] about     `<happened> <type> <host>`, for the record
-- ARGV[6] after     for a reply, the number before it; else empty. The lowest undelivered number is kept, so that a
--                   message that stands for several replies leads the receiver to all of them
-- ARGV[7...] fields  url, type, data: name, value, ...
-- Returns {'enqueued'|'merged', time of the next attempt (ms)} | {'known'}
-- Slot    the partition of the entity
-- include note_callback
-- include now
local at = now()
local told, last, attempt, sent, reason, untold =
  unpack(redis.call('HMGET', callback, 'id', 'at', 'attempt', 'sent_at', 'reason', 'after'))
local when = attempt and redis.call('ZSCORE', due, name)
if told and (when or not attempt) then
  local later = tonumber(happened) - tonumber(last)
  if later < 0 or (later == 0 and (#id < #told or (#id == #told and id <= told))) then return {'known'} end
end
redis.call('HSET', callback, 'id', id, 'at', happened, unpack(ARGV, 7))
if after ~= '' then redis.call('HSET', callback, 'after', math.min(tonumber(after), tonumber(untold or after))) end
if when then -- the older message may be on its way to the receiver now: if it arrives, it is noted again
  if told ~= id then redis.call('HDEL', record, told) end
  note_callback(record, id, 'pending', tonumber(attempt), tonumber(when), reason or '', about)
  return {'merged', tonumber(when)}
end
when = at
if sent and tonumber(sent) <= at then when = math.max(at, sent + pause) end -- otherwise the clock was set back
redis.call('HSET', callback, 'attempt', 0, 'misses', 0, 'waited', 0, 'since', at) -- version 1.0.0 reads `since`
redis.call('PERSIST', callback)
redis.call('ZADD', due, when, name)
note_callback(record, id, 'pending', 0, when, '', about)
return {'enqueued', when}
