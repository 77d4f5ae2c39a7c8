#!lua
-- Completes a claimed contract with its result, for its claimant. The same bytes again get the same answer;
-- whether other bytes are the same JSON is for the caller to see. A contract that a transition completed has the
-- result null.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] events   events:{p}
-- ARGV[1] id
-- ARGV[2] attempt  of the claim_token
-- ARGV[3] request  of the claim_token
-- ARGV[4] result   JSON
-- Returns {'completed', now, {name, value, ...}}: what lists and the answer need, without the result
--       | {'refused', 'task.unknown'|'task.token'|'task.state'|'task.completed', status}
-- Slot    partition of the id
-- include now
-- include lapse
-- include is_claimant
-- include finish
-- include tell_task
local at = now()
local status = lapse(task, events, leases, id, at)
if not status then return {'refused', 'task.unknown', ''} end
if status == 'offered' or not is_claimant(task, attempt, request) then return {'refused', 'task.token', status} end
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
local names = {'kind', 'status', 'created_at', 'claimed_at', 'completed_at'}
local fields = {}
for i, value in ipairs(redis.call('HMGET', task, unpack(names))) do
  fields[2 * i - 1], fields[2 * i] = names[i], value
end
return {'completed', at, fields}
