#!lua
-- Releases a claim, for its claimant: the contract is on offer again. The token stays valid for this step until the
-- next claim, so that a repeated release gets the same answer.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] events   events:{p}
-- ARGV[1] id
-- ARGV[2] attempt  of the claim_token
-- ARGV[3] request  of the claim_token
-- Returns {'released', now, {name, value, ...}} | {'refused', 'task.unknown'|'task.token'|'task.state', status}
-- Slot    partition of the id
-- include now
-- include lapse
-- include is_claimant
-- include reoffer
-- include plan
-- include announce_task
local at = now()
local status = lapse(task, events, id, at)
if not status then return {'refused', 'task.unknown', ''} end
if not is_claimant(task, attempt, request) then return {'refused', 'task.token', status} end
if status == 'claimed' or status == 'in_progress' then
  announce_task(task, events, id, 'released', 'offered')
  reoffer(task, at)
  plan(task, leases, id)
elseif status ~= 'offered' then
  return {'refused', 'task.state', status}
end
return {'released', at, redis.call('HGETALL', task)}
