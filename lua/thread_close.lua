#!lua
-- Closes or hides a thread: no more replies; a hidden one is no longer shown either. Asked again, it stays as it is.
-- KEYS[1] thread  thread:{p}:<id>
-- KEYS[2] replay  replay:{p}:<signature>; any key of the slot when the request is not signed
-- KEYS[3] events  events:{p}
-- ARGV[1] id
-- ARGV[2] status  closed | hidden
-- ARGV[3] signer  thumbprint of the key that must have signed the thread; empty = the operator
-- ARGV[4] replay_ttl  milliseconds; 0 = not signed
-- Returns {'closed'} (again, too, with the same signature) | {'unknown'}: or hidden, to a signer
--       | {'signer'}: signed by another key, or by none | {'signature'}: used before
-- Slot    partition of the id
-- include announce
local was, owner = unpack(redis.call('HMGET', thread, 'status', 'signer'))
if not was or (was == 'hidden' and signer ~= '') then return {'unknown'} end
if signer ~= '' and owner ~= signer then return {'signer'} end
if was == status or was == 'hidden' then return {'closed'} end
if replay_ttl ~= '0' and not redis.call('SET', replay, id, 'NX', 'PX', replay_ttl) then return {'signature'} end
redis.call('HSET', thread, 'status', status)
announce(events, 'thread.closed', id)
redis.call('SPUBLISH', thread, status)
return {'closed'}
