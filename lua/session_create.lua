#!lua
-- Opens a session, once for each Idempotency-Key.
-- KEYS[1] session  session:{p}:<id>
-- KEYS[2] idem     idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- ARGV[1] digest   of the body, under its Idempotency-Key; empty = none
-- ARGV[2] idem_ttl milliseconds
-- ARGV[3] session_id
-- ARGV[4] ttl      milliseconds that the session lives
-- ARGV[5...] fields  name, value, ...
-- Returns {'created', expires_at} | {'replayed', id, expires_at, now} | {'conflict'}
-- Slot    partition of the id
-- include now
-- include once
-- include remember
local before, original = once(idem, digest)
if before == 'replayed' then
  local first, expires = string.match(original, '^(.+)@(%d+)$')
  return {before, first, tonumber(expires), now()}
end
if before then return {before} end

local expires = now() + ttl
redis.call('HSET', session, 'expires_at', expires, 'bytes', 0, unpack(ARGV, 5))
redis.call('PEXPIREAT', session, expires)
remember(idem, digest, idem_ttl, string.format('%s@%.0f', session_id, expires))
return {'created', expires}
