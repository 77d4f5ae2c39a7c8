#!lua
-- Appends one line to a live session, once for each Idempotency-Key. Sequence numbers have no gaps.
-- KEYS[1] session  session:{p}:<id>
-- KEYS[2] lines    lines:{p}:<id>
-- KEYS[3] rate     rate:{p}:line:<id>:<client>
-- KEYS[4] idem     idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[5] events   events:{p}
-- ARGV[1] count    the limit
-- ARGV[2] seconds  its window
-- ARGV[3] digest   of the body, under its Idempotency-Key; empty = none
-- ARGV[4] idem_ttl milliseconds
-- ARGV[5] max_lines
-- ARGV[6] max_bytes
-- ARGV[7] size     bytes of the line's text
-- ARGV[8] session_id
-- ARGV[9...] fields  name, value, ... of the line
-- Returns {'sent'|'replayed', allowed, remaining, reset_ms, seq, received_at}
--       | {'limited'|'full'|'conflict', …} | {'gone'}: not counted
-- Slot    partition of the session's id
-- include now
-- include take
-- include once
-- include remember
-- include announce
local expires, bytes, callback = unpack(redis.call('HMGET', session, 'expires_at', 'bytes', 'callback_url'))
if not expires then return {'gone'} end

local at = now()
local allowed, remaining, reset = take(rate, count, seconds, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end

local before, original = once(idem, digest)
if before == 'replayed' then
  local seq, received = string.match(original, '^(%d+)-(%d+)$')
  return {before, allowed, remaining, reset, tonumber(seq), tonumber(received)}
end
if before then return {before, allowed, remaining, reset} end

if redis.call('XLEN', lines) >= tonumber(max_lines) or bytes + size > tonumber(max_bytes) then
  return {'full', allowed, remaining, reset}
end
local entry = redis.call('XADD', lines, '0-*', 'at', at, unpack(ARGV, 9))
local seq = tonumber(string.sub(entry, 3))
if seq == 1 then redis.call('PEXPIREAT', lines, expires) end
redis.call('HINCRBY', session, 'bytes', size)
if digest ~= '' then
  -- In the last millisecond of a session none is left, and a key cannot have a TTL of 0.
  remember(idem, digest, math.max(1, math.min(idem_ttl, expires - at)), string.format('%d-%.0f', seq, at))
end
if callback then announce(events, 'session.line', session_id, 'seq', seq, 'callback', callback) end
redis.call('SPUBLISH', session, seq)
return {'sent', allowed, remaining, reset, seq, at}
