#!lua
-- Records which contract a request with an Idempotency-Key is about to claim, unless a repetition of the request has
-- recorded another one meanwhile. So a request that is repeated after its answer was lost finds the claim that it made.
-- Expired records do not count.
-- KEYS[1] intent   idem:{p}:<scope>
-- ARGV[1] before   the contract recorded when the caller last looked; empty = none
-- ARGV[2] id       the contract to be claimed; empty = only look
-- ARGV[3] ttl      milliseconds
-- Returns {id}: the contract that is recorded now; empty = none
-- Slot    partition of the Idempotency-Key
local recorded = redis.call('GET', intent) or ''
if id == '' or (recorded ~= '' and recorded ~= before) then return {recorded} end
redis.call('SET', intent, id, 'PX', ttl)
return {id}
