#!lua
-- Copies events from the outbox of a partition to the public feed. Guarantees that each is copied once, in the order of
-- the outbox: it copies only from where the last copy of that partition ended, whoever made it.
-- KEYS[1] feed   feed:{feed}
-- KEYS[2] marks  feed:marks:{feed}
-- ARGV[1] partition
-- ARGV[2] first  outbox id after which the entries begin; empty = the beginning
-- ARGV[3] last   outbox id of the last entry that was looked at
-- ARGV[4] most   entries that the feed keeps
-- ARGV[5] slack  entries that it may have beyond that before it is trimmed
-- ARGV[6...] entries  type, entity, number of the reply, time (ms) of each
-- Returns {'copied'} | {'moved', id}: the last copy ended at that outbox id
-- Slot    that of the feed
local mark = redis.call('HGET', marks, partition) or ''
if mark ~= first then return {'moved', mark} end
for i = 6, #ARGV, 4 do
  redis.call('XADD', feed, '*', 'type', ARGV[i], 'id', ARGV[i + 1], 'seq', ARGV[i + 2], 'at', ARGV[i + 3])
end
redis.call('HSET', marks, partition, last)
local over = redis.call('XLEN', feed) - tonumber(most)
if over > tonumber(slack) then
  redis.call('HSET', marks, 'trimmed', redis.call('XRANGE', feed, '-', '+', 'COUNT', over)[over][1])
  redis.call('XTRIM', feed, 'MAXLEN', most)
end
if #ARGV > 5 then redis.call('SPUBLISH', feed, 'event') end
return {'copied'}
