#!lua
-- Adds a thread from another node, unless this node has it. Its replies are there already.
-- KEYS[1] thread   thread:{p}:<id>
-- KEYS[2] events   events:{p}
-- ARGV[1] thread_id
-- ARGV[2...] fields  name, value, ...
-- Returns {'imported'} | {'known'}
-- Slot    partition of the id
-- include announce
if redis.call('EXISTS', thread) == 1 then return {'known'} end
redis.call('HSET', thread, unpack(ARGV, 2))
announce(events, 'thread.opened', thread_id)
return {'imported'}
