#!lua
-- Claims an offered contract for the first caller: guarantees one winner for each attempt, and gives the winner the
-- same answer if the same request comes again. A request that is repeated after its claim was given up claims nothing.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] replay   replay:{p}:<signature>; any key of the slot when the request is not signed
-- KEYS[4] events   events:{p}
-- ARGV[1] id
-- ARGV[2] assignee
-- ARGV[3] request  id of the request, the same when it is repeated
-- ARGV[4] replay_ttl  milliseconds; 0 = not signed
-- Returns {'claimed'|'replayed', now, {name, value, ...}}
--       | {'refused', 'task.unknown'|'task.claimed'|'task.state'|'signature.replayed', status}
--       | {'refused', 'task.paused', status, milliseconds until it can be claimed}
-- Slot    partition of the id
-- include now
-- include lapse
-- include lease
-- include plan
-- include announce_task
-- include first_use
local at = now()
local status, opens = lapse(task, events, id, at)
if not status then return {'refused', 'task.unknown', ''} end
local is_last = redis.call('HGET', task, 'claim') == request
if status == 'claimed' or status == 'in_progress' then
  if not is_last then return {'refused', 'task.claimed', status} end
  return {'replayed', at, redis.call('HGETALL', task)}
end
if status ~= 'offered' then return {'refused', 'task.state', status} end
if is_last then return {'refused', 'task.state', 'no longer claimed with this Idempotency-Key'} end
if opens then return {'refused', 'task.paused', status, opens - at} end
if not first_use(replay, replay_ttl, id) then return {'refused', 'signature.replayed', status} end

redis.call('HINCRBY', task, 'attempt', 1)
redis.call('HSET', task, 'status', 'claimed', 'assignee_id', assignee, 'claim', request, 'claimed_at', at)
lease(task, at)
plan(task, leases, id)
announce_task(task, events, id, 'claimed', 'claimed')
return {'claimed', at, redis.call('HGETALL', task)}
