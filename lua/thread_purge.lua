#!lua flags=allow-oom
-- Removes a thread with all its replies, its undelivered callback, and its posts in the operator's queue of reports.
-- With `idle_since`, only if nothing has happened in the thread since. Allowed when memory is full: it frees memory.
-- KEYS[1] thread    thread:{p}:<id>
-- KEYS[2] replies   replies:{p}:<id>
-- KEYS[3] callback  callback:{p}:<id>
-- KEYS[4] due       callbacks:{p}
-- KEYS[5] events    events:{p}
-- KEYS[6] reports   reports:{p}
-- ARGV[1] thread_id
-- ARGV[2] idle_since  keep the thread if something has happened in it after this time (ms); 0 = remove it in any case
-- Returns {'purged'} | {'unknown'} | {'active'}
-- Slot    partition of the id
-- include announce
local created, replied, reported = unpack(redis.call('HMGET', thread, 'created_at', 'last_reply_at', 'reported'))
if not created then return {'unknown'} end
if idle_since ~= '0' and tonumber(replied or created) > tonumber(idle_since) then return {'active'} end
redis.call('UNLINK', thread, replies, callback)
redis.call('ZREM', due, thread_id)
if reported then
  local posts = {}
  for seq in string.gmatch(reported, '%d+') do posts[#posts + 1] = thread_id .. ':' .. seq end
  redis.call('ZREM', reports, unpack(posts))
end
announce(events, 'thread.purged', thread_id)
redis.call('SPUBLISH', thread, 'purged')
return {'purged'}
