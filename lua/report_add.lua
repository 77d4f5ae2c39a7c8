#!lua
-- Keeps one report about a post, once for each site, and hides the post when enough sites have reported it since the
-- operator last looked.
-- KEYS[1] thread   thread:{p}:<id>
-- KEYS[2] replies  replies:{p}:<id>
-- KEYS[3] report   report:{p}:<id>:<seq>
-- KEYS[4] reports  reports:{p}
-- KEYS[5] events   events:{p}
-- ARGV[1] thread_id
-- ARGV[2] seq        number of the reply; 0 = the thread itself
-- ARGV[3] reporter   short name of the site of the client
-- ARGV[4] reason
-- ARGV[5] threshold  number of reports that hide the post; 0 = reports never hide it
-- ARGV[6] most       reports of one post that are kept; further ones are not counted
-- ARGV[7] ttl        milliseconds for which reports are kept
-- ARGV[8] most_characters  of the thread's list of reported posts, which leave the queue when the thread is removed
-- Returns {'kept'} | {'known'}: the site has reported the post before, or it has `most` reports
--       | {'unknown'}: no such post, or a hidden one
-- Slot    partition of the thread's id
-- include now
-- include hide_post
local status, hidden, reported = unpack(redis.call('HMGET', thread, 'status', 'hidden_replies', 'reported'))
if not status or status == 'hidden' then return {'unknown'} end
if seq ~= '0' then
  if #redis.call('XRANGE', replies, '0-' .. seq, '0-' .. seq) == 0 then return {'unknown'} end
  if string.find(hidden or ',', ',' .. seq .. ',', 1, true) then return {'unknown'} end
end
local by = 'by:' .. reporter
if redis.call('HEXISTS', report, by) == 1 or redis.call('HLEN', report) > tonumber(most) then return {'known'} end

local at = now()
redis.call('HSET', report, by, string.format('%.0f %s', at, reason))
local count = redis.call('HINCRBY', report, 'open', 1)
redis.call('PEXPIRE', report, ttl)
redis.call('ZADD', reports, at, thread_id .. ':' .. seq)
reported = reported or ','
if not string.find(reported, ',' .. seq .. ',', 1, true) and #reported < tonumber(most_characters) then
  redis.call('HSET', thread, 'reported', reported .. seq .. ',')
end
if threshold ~= '0' and count >= tonumber(threshold) and hide_post(thread, events, thread_id, seq) then
  redis.call('HSET', report, 'hid', 1)
end
return {'kept'}
