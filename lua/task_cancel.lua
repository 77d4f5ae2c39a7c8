#!lua
-- Cancels a contract for its publisher. Canceling it again changes nothing.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] replay   replay:{p}:<signature>; any key of the slot when the request is not signed
-- KEYS[4] events   events:{p}
-- ARGV[1] id
-- ARGV[2] proven   1 = the publisher_token was shown
-- ARGV[3] signer   thumbprint of the request's key; empty = not signed
-- ARGV[4] replay_ttl  milliseconds; 0 = not signed
-- Returns {'canceled', now, {name, value, ...}}
--       | {'refused', 'task.unknown'|'task.publisher'|'task.state'|'signature.replayed', status}
-- Slot    partition of the id
-- include now
-- include lapse
-- include finish
-- include plan
-- include announce_task
-- include is_publisher
-- include first_use
local at = now()
local status = lapse(task, events, id, at)
if not status then return {'refused', 'task.unknown', ''} end
if not is_publisher(task, proven, signer) then return {'refused', 'task.publisher', status} end
if status ~= 'canceled' then
  if status ~= 'offered' and status ~= 'claimed' and status ~= 'in_progress' then
    return {'refused', 'task.state', status}
  end
  if not first_use(replay, replay_ttl, id) then return {'refused', 'signature.replayed', status} end
  finish(task, 'canceled', at)
  plan(task, leases, id)
  announce_task(task, events, id, 'canceled', 'canceled')
end
return {'canceled', at, redis.call('HGETALL', task)}
