#!lua
-- Ends the present attempt without a result, for its claimant. The contract is offered again after a pause if attempts
-- are left, else it has failed. The token stays valid for this step until the next claim, so that a repeated call gets
-- the same answer.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] events   events:{p}
-- ARGV[1] id
-- ARGV[2] attempt  of the claim_token
-- ARGV[3] request  of the claim_token
-- ARGV[4] reason   JSON
-- ARGV[5] retryable  1 = another attempt may succeed
-- Returns {'failed', now, {name, value, ...}} | {'refused', 'task.unknown'|'task.token'|'task.state', status}
-- Slot    partition of the id
-- include now
-- include lapse
-- include is_claimant
-- include end_attempt
-- include plan
local at = now()
local status = lapse(task, events, id, at)
if not status then return {'refused', 'task.unknown', ''} end
if not is_claimant(task, attempt, request) then return {'refused', 'task.token', status} end
if status == 'claimed' or status == 'in_progress' then
  end_attempt(task, events, id, at, 'failed', reason, retryable == '1')
  redis.call('HSET', task, 'failed_attempt', attempt)
  plan(task, leases, id)
elseif redis.call('HGET', task, 'failed_attempt') ~= attempt or (status ~= 'offered' and status ~= 'failed') then
  return {'refused', status == 'offered' and 'task.token' or 'task.state', status}
end
return {'failed', at, redis.call('HGETALL', task)}
