#!lua
-- Closes a thread, which takes no more replies then, or hides it, which is shown to nobody either. A hidden thread stays
-- hidden.
-- KEYS[1] thread  thread:{p}:<id>
-- KEYS[2] replay  replay:{p}:<signature>; any key of the slot when the request is not signed
-- KEYS[3] events  events:{p}
-- ARGV[1] thread_id
-- ARGV[2] status  closed | hidden
-- ARGV[3] signer  thumbprint of the key that must have signed the thread; empty = the operator asks
-- ARGV[4] replay_ttl  milliseconds; 0 = not signed
-- Returns {'closed'}: now or before, even with the same signature | {'unknown'}: or hidden, if a signer asks
--       | {'signer'}: the thread was signed by another key, or by none | {'signature'}: it was used before
-- Slot    partition of the id
-- include announce
local was, owner = unpack(redis.call('HMGET', thread, 'status', 'signer'))
if not was or (was == 'hidden' and signer ~= '') then return {'unknown'} end
if signer ~= '' and owner ~= signer then return {'signer'} end
if was == status or was == 'hidden' then return {'closed'} end
if replay_ttl ~= '0' and not redis.call('SET', replay, thread_id, 'NX', 'PX', replay_ttl) then return {'signature'} end
redis.call('HSET', thread, 'status', status)
announce(events, 'thread.closed', thread_id)
redis.call('SPUBLISH', thread, status)
return {'closed'}
