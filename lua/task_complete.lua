#!lua
-- Completes a claimed contract with its result, for its claimant, or submits the result if the publisher reviews it. A
-- result that must match a JSON Schema is accepted only after the caller has checked it. The same bytes again get the
-- same answer; the caller decides whether other bytes are the same JSON. A contract that a transition completed has the
-- result null.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] events   events:{p}
-- ARGV[1] id
-- ARGV[2] attempt  of the claim_token
-- ARGV[3] request  of the claim_token
-- ARGV[4] result   JSON
-- ARGV[5] checked  1 = the result matches the JSON Schema of the contract
-- Returns {'completed', now, {name, value, ...}}: the fields that lists and the answer need, without the result
--       | {'unchecked', now, {'result_schema', JSON Schema}}
--       | {'refused', 'task.unknown'|'task.token'|'task.state'|'task.completed', status}
-- Slot    partition of the id
-- include now
-- include lapse
-- include is_claimant
-- include finish
-- include plan
-- include announce_task
local at = now()
local status = lapse(task, events, id, at)
if not status then return {'refused', 'task.unknown', ''} end
if status == 'offered' or not is_claimant(task, attempt, request) then return {'refused', 'task.token', status} end
if status == 'completed' or status == 'submitted' then
  if (redis.call('HGET', task, 'result_payload') or 'null') ~= result then
    return {'refused', status == 'completed' and 'task.completed' or 'task.state', status}
  end
elseif status == 'claimed' or status == 'in_progress' then
  local schema, review = unpack(redis.call('HMGET', task, 'result_schema', 'review_ms'))
  if schema and checked ~= '1' then return {'unchecked', at, {'result_schema', schema}} end
  redis.call('HSET', task, 'result_payload', result)
  if review then
    redis.call('HSET', task, 'status', 'submitted', 'submitted_at', at, 'review_ends_at', at + review)
    redis.call('HDEL', task, 'lease_expires_at')  -- no lease runs during the review
    announce_task(task, events, id, 'submitted', 'submitted')
  else
    finish(task, 'completed', at)
    announce_task(task, events, id, 'completed', 'completed')
  end
  plan(task, leases, id)
else
  return {'refused', 'task.state', status}
end
local names = {'kind', 'status', 'created_at', 'claimed_at', 'completed_at', 'submitted_at', 'more', 'attempt'}
local fields = {}
for i, value in ipairs(redis.call('HMGET', task, unpack(names))) do
  if value then
    fields[#fields + 1] = names[i]
    fields[#fields + 1] = value
  end
end
return {'completed', at, fields}
