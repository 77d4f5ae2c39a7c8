#!lua
-- Accepts a submitted result, or sends it back to the worker, for the publisher, once for each Idempotency-Key. After a
-- rejection, the same claim_token can submit again, and its lease restarts; but if the deadline is over, the contract
-- ends instead. Reviewing the same result again in the same way changes nothing.
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
-- ARGV[7] reason   of a rejection; empty = accepted
-- Returns {'reviewed'|'replayed', now, {name, value, ...}}
--       | {'refused', 'task.unknown'|'task.publisher'|'idempotency.conflict'|'task.state'|'signature.replayed', status}
-- Slot    partition of the id
-- include now
-- include lapse
-- include once
-- include remember
-- include lease
-- include finish
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
local reviewed, rejection, deadline = unpack(redis.call('HMGET', task, 'review_ms', 'rejection', 'deadline'))
local is_over = deadline and tonumber(deadline) <= at
local done = reason == '' and status == 'completed'
  or (reason ~= '' and rejection == reason and (status == 'in_progress' or status == 'expired'))
if status ~= 'submitted' and not (reviewed and done) then return {'refused', 'task.state', status} end
if status == 'submitted' then
  if not first_use(replay, replay_ttl, id) then return {'refused', 'signature.replayed', status} end
  if reason == '' then
    finish(task, 'completed', at)
    announce_task(task, events, id, 'completed', 'completed')
  else
    redis.call('HSET', task, 'rejection', reason)
    redis.call('HDEL', task, 'result_payload', 'submitted_at', 'review_ends_at')
    if is_over then
      announce_task(task, events, id, 'expired', 'expired')
      finish(task, 'expired', at)
    else
      redis.call('HSET', task, 'status', 'in_progress', 'updated_at', at)
      lease(task, at)
      announce_task(task, events, id, 'rejected', 'in_progress')
    end
  end
  plan(task, leases, id)
end
remember(idem, digest, idem_ttl, id)
return {'reviewed', at, redis.call('HGETALL', task)}
