#!lua
-- Completes a claimed contract with its result, for whoever holds the claim. The same bytes again get the
-- same answer (whether others are the same JSON is for the caller to see); what was completed by a transition
-- has the result null.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] events   events:{p}
-- ARGV[1] id
-- ARGV[2] attempt  of the claim_token
-- ARGV[3] request  of the claim_token
-- ARGV[4] result   JSON
-- Returns {'completed', now, {name, value, ...}}: the fields without the result
--       | {'refused', 'task.unknown'|'task.token'|'task.state'|'task.completed', status}
-- Slot    partition of the id
-- include now
-- include lapse
-- include holds
-- include finish
-- include tell_task
local at = now()
local status = lapse(task, events, leases, id, at)
if not status then return {'refused', 'task.unknown', ''} end
if status == 'offered' or not holds(task, attempt, request) then return {'refused', 'task.token', status} end
if status == 'canceled' then return {'refused', 'task.state', status} end
if status == 'completed' then
  if (redis.call('HGET', task, 'result_payload') or 'null') ~= result then
    return {'refused', 'task.completed', status}
  end
else
  redis.call('HSET', task, 'result_payload', result)
  finish(task, leases, id, 'completed', at)
  tell_task(task, events, id, 'completed', 'completed')
end
local created, claimed, completed = unpack(redis.call('HMGET', task, 'created_at', 'claimed_at', 'completed_at'))
return {'completed', at, {'created_at', created, 'claimed_at', claimed, 'completed_at', completed}}
