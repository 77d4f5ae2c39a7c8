#!lua
-- Closes a thread, so that it takes no more replies, or opens it again. A hidden thread stays hidden, and gets the new
-- status when it is shown again.
-- KEYS[1] thread  thread:{p}:<id>
-- KEYS[2] replay  replay:{p}:<signature>; any key of the slot when the request is not signed
-- KEYS[3] events  events:{p}
-- ARGV[1] thread_id
-- ARGV[2] status  closed | open
-- ARGV[3] signer  thumbprint of the key that must have signed the thread; empty = the operator asks
-- ARGV[4] replay_ttl  milliseconds; 0 = not signed
-- Returns {'closed'}: it has the new status, even if it had the status before or the signature was used before
--       | {'unknown'}: unknown, or hidden if a signer asks | {'signer'}: another key, or none, signed the thread
--       | {'signature'}: it was used before
-- Slot    partition of the id
-- include announce
-- include now
-- include first_use
local was, owner = unpack(redis.call('HMGET', thread, 'status', 'signer'))
if not was or (was == 'hidden' and signer ~= '') then return {'unknown'} end
if signer ~= '' and owner ~= signer then return {'signer'} end
if was == status then return {'closed'} end
if not first_use(replay, replay_ttl, thread_id) then return {'signature'} end
if status == 'closed' then
  redis.call('HSET', thread, 'closed_at', now())
else
  redis.call('HDEL', thread, 'closed_at')
end
redis.call('HSET', thread, was == 'hidden' and 'was' or 'status', status)
announce(events, status == 'open' and 'thread.opened' or 'thread.closed', thread_id)
redis.call('SPUBLISH', thread, status)
return {'closed'}
