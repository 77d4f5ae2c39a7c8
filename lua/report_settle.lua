#!lua flags=allow-oom
-- Removes a reported post from the operator's queue, and hides or shows the post. The reports are kept, so that the
-- same clients are not counted again. Allowed when memory is full: moderation must work then, too.
-- KEYS[1] thread   thread:{p}:<id>
-- KEYS[2] replies  replies:{p}:<id>
-- KEYS[3] report   report:{p}:<id>:<seq>
-- KEYS[4] reports  reports:{p}
-- KEYS[5] events   events:{p}
-- ARGV[1] thread_id
-- ARGV[2] seq      number of the reply; 0 = the thread itself
-- ARGV[3] action   hide | dismiss, which shows the post again if the reports have hidden it; not if it was removed
-- Returns {'settled'} | {'unknown'}: nobody has reported it
-- Slot    partition of the thread's id
-- include hide_post
-- include show_post
redis.call('ZREM', reports, thread_id .. ':' .. seq)
if redis.call('EXISTS', report) == 0 then return {'unknown'} end
local is_there = redis.call('EXISTS', thread) == 1
  and (seq == '0' or #redis.call('XRANGE', replies, '0-' .. seq, '0-' .. seq) > 0)
if is_there and action == 'hide' then
  hide_post(thread, events, thread_id, seq)
elseif is_there and redis.call('HGET', report, 'hid') then
  show_post(thread, events, thread_id, seq)
end
redis.call('HDEL', report, 'hid')
redis.call('HSET', report, 'open', 0)
return {'settled'}
