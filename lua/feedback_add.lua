#!lua
-- Keeps one report to the operators, once for each Idempotency-Key.
-- KEYS[1] rate      rate:{p}:feedback:<client>
-- KEYS[2] site      rate:{p}:feedback:<site of the client>; the same as rate if the client is its own site
-- KEYS[3] idem      idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[4] feedback  feedback:{p}
-- ARGV[1] count     the limit
-- ARGV[2] site_count  that of the site
-- ARGV[3] seconds   the window of both
-- ARGV[4] digest    of the body, under its Idempotency-Key; empty = none
-- ARGV[5] idem_ttl  milliseconds
-- ARGV[6] feedback_id
-- ARGV[7] keep      approximate number of reports that the partition keeps; the oldest are removed first
-- ARGV[8...] fields  name, value, ...
-- Returns {'received'|'limited', allowed, remaining, reset_ms} | {'replayed', id} | {'conflict'}
-- Slot    partition of the client address
-- include now
-- include take_both
-- include once
-- include remember
-- A repeated report is answered before anything is counted: the limit of one an hour leaves no room for it.
local before, original = once(idem, digest)
if before then return {before, original} end
local at = now()
local allowed, remaining, reset = take_both(rate, site, count, site_count, seconds, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end
redis.call('XADD', feedback, 'MAXLEN', '~', keep, '*', 'id', feedback_id, 'at', at, unpack(ARGV, 8))
remember(idem, digest, idem_ttl, feedback_id)
return {'received', allowed, remaining, reset}
