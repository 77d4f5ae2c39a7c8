#!lua
-- Copies events from the outboxes to the public feed. Guarantees that each event is copied once, in the order of its
-- outbox: a copy of an outbox must begin where the last copy ended, whichever worker made it.
-- KEYS[1] feed   feed:{feed}
-- KEYS[2] marks  feed:marks:{feed}
-- ARGV[1] most   entries that the feed keeps
-- ARGV[2] slack  entries that the feed may have beyond `most` before it is trimmed
-- ARGV[3] outboxes  number of outboxes
-- ARGV[4...] parts  for each outbox: partition, id after which the entries begin (empty = the beginning), id of the
--                last entry examined; then for each event: type, entity, number of the reply, time (ms)
-- Returns {'copied'} | {'moved'}: the last copy of an outbox ended elsewhere, and nothing was copied
-- Slot    that of the feed
local events = 4 + 3 * outboxes
for i = 4, events - 1, 3 do
  if (redis.call('HGET', marks, ARGV[i]) or '') ~= ARGV[i + 1] then return {'moved'} end
end
for i = 4, events - 1, 3 do redis.call('HSET', marks, ARGV[i], ARGV[i + 2]) end
for i = events, #ARGV, 4 do
  redis.call('XADD', feed, '*', 'type', ARGV[i], 'id', ARGV[i + 1], 'seq', ARGV[i + 2], 'at', ARGV[i + 3])
end
local over = redis.call('XLEN', feed) - tonumber(most)
if over > tonumber(slack) then
  redis.call('HSET', marks, 'trimmed', redis.call('XRANGE', feed, '-', '+', 'COUNT', over)[over][1])
  redis.call('XTRIM', feed, 'MAXLEN', most)
end
if #ARGV >= events then redis.call('SPUBLISH', feed, 'event') end
return {'copied'}
