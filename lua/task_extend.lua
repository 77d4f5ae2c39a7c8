#!lua
-- Restarts the lease of a claim, for its claimant. A claim without a lease stays as it is.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] events   events:{p}
-- ARGV[1] id
-- ARGV[2] attempt  of the claim_token
-- ARGV[3] request  of the claim_token
-- Returns {'extended', now, {name, value, ...}} | {'refused', 'task.unknown'|'task.token'|'task.state', status}
-- Slot    partition of the id
-- include now
-- include lapse
-- include is_claimant
-- include lease
-- include plan
local at = now()
local status = lapse(task, events, id, at)
if not status then return {'refused', 'task.unknown', ''} end
if status == 'offered' or not is_claimant(task, attempt, request) then return {'refused', 'task.token', status} end
if status ~= 'claimed' and status ~= 'in_progress' then return {'refused', 'task.state', status} end
lease(task, at)
plan(task, leases, id)
return {'extended', at, redis.call('HGETALL', task)}
