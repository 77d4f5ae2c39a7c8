#!lua
-- Moves a contract to its next status, for its publisher or its assignee, once for each Idempotency-Key. A transition
-- to `completed` gives no result, so it is refused if the result must match a JSON Schema or is reviewed.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] idem     idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[4] replay   replay:{p}:<signature>; any key of the slot when the request is not signed
-- KEYS[5] events   events:{p}
-- ARGV[1] digest   of the body, under its Idempotency-Key; empty = none
-- ARGV[2] idem_ttl  milliseconds
-- ARGV[3] replay_ttl  milliseconds; 0 = not signed
-- ARGV[4] id
-- ARGV[5] actor    the name that the caller gives for itself: must be the publisher or the assignee
-- ARGV[6] target   the status wanted; empty = the next one
-- ARGV[7] proven   1 = the publisher_token was shown
-- ARGV[8] signer   thumbprint of the request's key; empty = not signed
-- ARGV[9] attempt  of the claim_token that was shown
-- ARGV[10] request  of that claim_token; empty = none was shown
-- Returns {'moved'|'replayed', now, {name, value, ...}}
--       | {'refused', 'task.unknown'|'idempotency.conflict'|'task.token'|'task.actor'|'task.proof'|'task.state'
--          |'task.result'|'signature.replayed', status}
-- Slot    partition of the id
-- include now
-- include once
-- include remember
-- include lapse
-- include is_publisher
-- include is_claimant
-- include first_use
-- include finish
-- include plan
-- include announce_task
local at = now()
local status = lapse(task, events, id, at)
if not status then return {'refused', 'task.unknown', ''} end
local before = once(idem, digest)
if before == 'conflict' then return {'refused', 'idempotency.conflict', status} end
if before then return {before, at, redis.call('HGETALL', task)} end

local publisher, assignee, bound, asked, reviewed = unpack(redis.call('HMGET', task,
  'publisher_id', 'assignee_id', 'bound', 'result_schema', 'review_ms'))
local claimant = request ~= '' and is_claimant(task, attempt, request)
if request ~= '' and not claimant then return {'refused', 'task.token', status} end
if actor ~= publisher and actor ~= assignee then return {'refused', 'task.actor', status} end
local as_publisher = actor == publisher and is_publisher(task, proven, signer)
local as_assignee = actor == assignee and claimant
if bound and not as_publisher and not as_assignee then return {'refused', 'task.proof', status} end

local after = ({claimed = 'in_progress', in_progress = 'completed'})[status]
if not after or (target ~= '' and target ~= after) then return {'refused', 'task.state', status} end
if after == 'completed' and (asked or reviewed) then return {'refused', 'task.result', status} end
if not first_use(replay, replay_ttl, id) then return {'refused', 'signature.replayed', status} end

if after == 'completed' then
  finish(task, after, at)
  plan(task, leases, id)
else
  redis.call('HSET', task, 'status', after, 'updated_at', at)
end
announce_task(task, events, id, after, after)
remember(idem, digest, idem_ttl, id)
return {'moved', at, redis.call('HGETALL', task)}
