#!lua
-- Offers one contract, once for each Idempotency-Key and each request signature.
-- KEYS[1] task    task:{p}:<id>
-- KEYS[2] idem    idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[3] replay  replay:{p}:<signature>; any key of the slot when the request is not signed here
-- KEYS[4] events  events:{p}
-- KEYS[5] leases  leases:{p}
-- KEYS[6] doc     search:tasks:doc:{p}:<id>
-- ARGV[1] digest  of the body, under its Idempotency-Key; empty = none
-- ARGV[2] idem_ttl  milliseconds
-- ARGV[3] replay_ttl  milliseconds; 0 = not signed here
-- ARGV[4] id
-- ARGV[5] deadline  milliseconds since 1970; empty = none
-- ARGV[6] client   for the workers: whose turn it is to be indexed, and for the operator
-- ARGV[7] whole   1 = the terms are those of the whole text, 0 = of its beginning; empty = none are kept
-- ARGV[8] terms   of the title and description, for the search
-- ARGV[9] marks   of these terms
-- ARGV[10...] fields  name, value, ...
-- Returns {'created', now, {name, value, ...}} | {'replayed', id}
--       | {'refused', 'idempotency.conflict'|'signature.replayed'|'task.deadline', ''}
-- Slot    partition of the id
-- include now
-- include once
-- include remember
-- include plan
-- include announce_task
-- include first_use
-- include keep_terms
local before, original = once(idem, digest)
if before == 'replayed' then return {before, original} end
if before then return {'refused', 'idempotency.conflict', ''} end
local at = now()
if deadline ~= '' and tonumber(deadline) <= at then return {'refused', 'task.deadline', ''} end
if not first_use(replay, replay_ttl, id) then return {'refused', 'signature.replayed', ''} end

redis.call('HSET', task, 'kind', 'contract', 'status', 'offered', 'attempt', 0, 'created_at', at, unpack(ARGV, 10))
keep_terms(doc, whole, terms, marks)
if deadline ~= '' then
  redis.call('HSET', task, 'deadline', deadline)
  plan(task, leases, id)
end
announce_task(task, events, id, 'offered', 'offered', client)
remember(idem, digest, idem_ttl, id)
return {'created', at, redis.call('HGETALL', task)}
