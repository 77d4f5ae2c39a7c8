#!lua
-- Adds a thread from another node, unless this node has it. Its replies were added before. The number of its last reply
-- is not used again, even if that reply was removed: the number is among the hidden ones, so a new reply with that
-- number would be hidden, too.
-- KEYS[1] thread   thread:{p}:<id>
-- KEYS[2] replies  replies:{p}:<id>
-- KEYS[3] events   events:{p}
-- ARGV[1] thread_id
-- ARGV[2] last     number of its last reply; 0 = none
-- ARGV[3...] fields  name, value, ...
-- Returns {'imported'} | {'known'}
-- Slot    partition of the id
-- include announce
if redis.call('EXISTS', thread) == 1 then return {'known'} end
redis.call('HSET', thread, unpack(ARGV, 3))
local newest = redis.call('XREVRANGE', replies, '+', '-', 'COUNT', 1)[1]
local seq = newest and tonumber(string.sub(newest[1], 3)) or 0
if seq < tonumber(last) then
  redis.call('XDEL', replies, redis.call('XADD', replies, '0-' .. last, 'id', ''))
elseif seq > tonumber(last) then -- it came while the thread was exported
  redis.call('HSET', thread, 'reply_count', seq)
end
announce(events, 'thread.opened', thread_id)
return {'imported'}
