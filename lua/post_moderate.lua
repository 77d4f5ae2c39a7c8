#!lua flags=allow-oom
-- For the operator: hides or shows a thread or one of its replies, or removes a reply for good, also from the queue of
-- reports. Idempotent. The number of a removed reply stays among the hidden ones, so that it never counts as shown.
-- Allowed when memory is full: moderation must work then, too, and a removal frees memory.
-- KEYS[1] thread   thread:{p}:<id>
-- KEYS[2] replies  replies:{p}:<id>
-- KEYS[3] events   events:{p}
-- KEYS[4] reports  reports:{p}
-- ARGV[1] thread_id
-- ARGV[2] seq      number of the reply; 0 = the thread itself
-- ARGV[3] action   hide | show | purge, which is for a reply only
-- Returns {'done'} | {'unknown'}: no such thread, or no such reply in it
-- Slot    partition of the id
-- include hide_post
-- include show_post
if redis.call('EXISTS', thread) == 0 then return {'unknown'} end
if seq ~= '0' and #redis.call('XRANGE', replies, '0-' .. seq, '0-' .. seq) == 0 then return {'unknown'} end
if action == 'show' then
  show_post(thread, events, thread_id, seq)
else
  hide_post(thread, events, thread_id, seq)
end
if action == 'purge' then
  redis.call('XDEL', replies, '0-' .. seq)
  redis.call('ZREM', reports, thread_id .. ':' .. seq)
end
return {'done'}
