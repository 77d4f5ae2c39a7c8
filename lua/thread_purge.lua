#!lua
-- Removes a thread with all its replies, and the ping that may be under way about it.
-- KEYS[1] thread    thread:{p}:<id>
-- KEYS[2] replies   replies:{p}:<id>
-- KEYS[3] callback  callback:{p}:<id>
-- KEYS[4] due       callbacks:{p}
-- KEYS[5] events    events:{p}
-- ARGV[1] id
-- Returns {'purged'} | {'unknown'}
-- Slot    partition of the id
-- include announce
if redis.call('EXISTS', thread) == 0 then return {'unknown'} end
redis.call('UNLINK', thread, replies, callback)
redis.call('ZREM', due, id)
announce(events, 'thread.purged', id)
redis.call('SPUBLISH', thread, 'purged')
return {'purged'}
