#!lua
-- Gives a failed contract one more attempt, for its publisher, once for each Idempotency-Key. A contract that is
-- already offered again stays as it is.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] idem     idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[4] replay   replay:{p}:<signature>; any key of the slot when the request is not signed
-- KEYS[5] events   events:{p}
-- ARGV[1] digest   of the body, under its Idempotency-Key; empty = none
-- ARGV[2] idem_ttl  milliseconds
-- ARGV[3] replay_ttl  milliseconds; 0 = not signed
-- ARGV[4] id
-- ARGV[5] proven   1 = the publisher_token was shown
-- ARGV[6] signer   thumbprint of the request's key; empty = not signed
-- Returns {'offered'|'replayed', now, {name, value, ...}}
--       | {'refused', 'task.unknown'|'task.publisher'|'idempotency.conflict'|'task.state'|'task.over'
--          |'signature.replayed', status}
-- Slot    partition of the id
-- include now
-- include lapse
-- include once
-- include remember
-- include reoffer
-- include plan
-- include announce_task
-- include is_publisher
-- include first_use
local at = now()
local status = lapse(task, events, id, at)
if not status then return {'refused', 'task.unknown', ''} end
if not is_publisher(task, proven, signer) then return {'refused', 'task.publisher', status} end
local before = once(idem, digest)
if before == 'conflict' then return {'refused', 'idempotency.conflict', status} end
if before then return {before, at, redis.call('HGETALL', task)} end
if status ~= 'offered' then
  if status ~= 'failed' then return {'refused', 'task.state', status} end
  local most, deadline = unpack(redis.call('HMGET', task, 'max_attempts', 'deadline'))
  if deadline and tonumber(deadline) <= at then return {'refused', 'task.over', status} end
  if not first_use(replay, replay_ttl, id) then return {'refused', 'signature.replayed', status} end
  redis.call('HSET', task, 'failures', (most or 1) - 1)
  redis.call('HDEL', task, 'failed_at', 'claim')
  reoffer(task, at)
  announce_task(task, events, id, 'retried', 'offered')
  plan(task, leases, id)
end
remember(idem, digest, idem_ttl, id)
return {'offered', at, redis.call('HGETALL', task)}
