#!lua
-- Logs one A2A message as a completed task under its context, once for each Idempotency-Key.
-- KEYS[1] rate     rate:{p}:message:<client>; any key of the slot when the limit is counted elsewhere
-- KEYS[2] idem     idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[3] task     task:{p}:<id>
-- KEYS[4] shared   context:{p}:<digest of the context id>: the context, if the node chose its id
-- KEYS[5] own      context:{p}:<digest of context id and client>: the context, if the client chose its id; both keys
--                  are the same if the caller knows which of the two it is
-- ARGV[1] count    the limit; 0 = none, or counted elsewhere
-- ARGV[2] seconds  its window
-- ARGV[3] digest   of the body, under its Idempotency-Key; empty = none
-- ARGV[4] idem_ttl milliseconds
-- ARGV[5] id       of the task
-- ARGV[6] ttl      milliseconds for which task and context are kept
-- ARGV[7...] fields  name, value, ... of the task
-- Returns {'kept', allowed, remaining, reset_ms, created_at} | {'replayed', …, id}
--       | {'limited'|'conflict', allowed, remaining, reset_ms}
-- Slot    partition of the context
-- include now
-- include take
-- include once
-- include remember
-- include drop_ended
local at = now()
local allowed, remaining, reset = take(rate, count, seconds, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end
local before, original = once(idem, digest)
if before then return {before, allowed, remaining, reset, original} end

redis.call('HSET', task, 'kind', 'message', 'created_at', at, unpack(ARGV, 7))
redis.call('PEXPIRE', task, ttl)
local context = shared
-- Only the node creates shared contexts. So if the shared one does not exist, the client chose the id.
if shared ~= own and redis.call('EXISTS', shared) == 0 then context = own end
drop_ended(context, at - ttl)  -- tasks that have expired
redis.call('ZADD', context, at, id)
redis.call('PEXPIRE', context, ttl)
remember(idem, digest, idem_ttl, id)
return {'kept', allowed, remaining, reset, at}
