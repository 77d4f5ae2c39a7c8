#!lua
-- Opens an inbox, or renews it if it exists, once for each Idempotency-Key and each request signature.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] last_seq  inbox-seq:{p}:<address>: the number of its last message
-- KEYS[3] idem     idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[4] replay   replay:{p}:<signature>; any key of the slot when the request is not signed
-- ARGV[1] digest   of the body, under its Idempotency-Key; empty = none
-- ARGV[2] idem_ttl  milliseconds
-- ARGV[3] replay_ttl  milliseconds; 0 = not signed
-- ARGV[4] proof    the epoch of the token shown; * = the key of the address has signed; empty = a new address
-- ARGV[5] address
-- ARGV[6] epoch    that begins if the inbox is opened or its tokens are rotated
-- ARGV[7] rotate   1 = all earlier tokens end
-- ARGV[8] life     milliseconds after which the inbox ends if its owner does not return
-- ARGV[9] kept     milliseconds for which the counter of its messages outlives the inbox
-- ARGV[10] step    milliseconds by which its place in the quota may outlive the inbox
-- ARGV[11] client  in whose quota a new inbox has its place
-- ARGV[12] place   the name of that place; empty = the inbox is not counted
-- ARGV[13] renews  1 = only renew: the caller found the inbox open and took no place for it
-- ARGV[14...] fields  name, value, ...
-- Returns {'opened'|'renewed', epoch, ends_at, client, place, until}: the last four as in `inbox_prolong`
--       | {'replayed', '<opened|renewed>@<address>@<epoch>@<time, ms>', now}
--       | {'conflict'} | {'gone'} | {'token'} | {'signature'}: that signature was used before
-- Slot    partition of the address
-- include now
-- include once
-- include remember
-- include prolong
-- include first_use
local before, original = once(idem, digest)
if before == 'replayed' then return {before, original, now()} end
if before then return {before} end

local current = redis.call('HGET', inbox, 'epoch')
if not current and (renews == '1' or (proof ~= '' and proof ~= '*')) then return {'gone'} end
if current and proof ~= '*' and proof ~= current then return {'token'} end
if not first_use(replay, replay_ttl, address) then return {'signature'} end

local at = now()
local kind = 'renewed'
if not current then
  kind, current = 'opened', epoch
  redis.call('HSET', inbox, 'opening', epoch, 'opened_at', at)
  if place ~= '' then redis.call('HSET', inbox, 'client', client, 'held', place, 'held_until', at + life) end
  redis.call('SET', last_seq, 0, 'NX')
elseif rotate == '1' then
  current = epoch
  redis.call('SPUBLISH', inbox, 'rotated')
end
redis.call('HSET', inbox, 'epoch', current, unpack(ARGV, 14))
if kind == 'opened' or #ARGV >= 14 then redis.call('HSET', inbox, 'changed', at) end
local ends_at, holder, held, held_until = prolong(inbox, last_seq, life, kept, step, at, 0)
remember(idem, digest, idem_ttl, string.format('%s@%s@%s@%.0f', kind, address, current, at))
return {kind, current, ends_at, holder, held, held_until}
