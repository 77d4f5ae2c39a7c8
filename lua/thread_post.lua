#!lua
-- Posts one thread, once for each Idempotency-Key and each request signature.
-- KEYS[1] thread  thread:{p}:<id>
-- KEYS[2] idem    idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[3] replay  replay:{p}:<signature>; any key of the slot when replay_ttl is 0
-- KEYS[4] events  events:{p}
-- ARGV[1] digest  of the body, under its Idempotency-Key; empty = none
-- ARGV[2] idem_ttl  milliseconds
-- ARGV[3] replay_ttl  milliseconds; 0 = not signed, or its signature is bound to the Idempotency-Key already
-- ARGV[4] thread_id
-- ARGV[5] client  for the workers: whose turn it is to be indexed, and for the operator
-- ARGV[6...] fields  name, value, ...
-- Returns {'posted', created_at} | {'replayed', id, created_at} | {'conflict'} | {'signature'}: it was used before
-- Slot    partition of the id
-- include now
-- include once
-- include remember
-- include announce
-- include first_use
local before, original = once(idem, digest)
if before == 'replayed' then
  local first, created = string.match(original, '^(.+)@(%d+)$')
  return {before, first, tonumber(created)}
end
if before then return {before} end
if not first_use(replay, replay_ttl, thread_id) then return {'signature'} end

local at = now()
redis.call('HSET', thread, 'created_at', at, unpack(ARGV, 6))
announce(events, 'thread.posted', thread_id, 'client', client)
remember(idem, digest, idem_ttl, string.format('%s@%.0f', thread_id, at))
return {'posted', at}
