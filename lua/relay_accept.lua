#!lua
-- Accepts one relay message, once for each Idempotency-Key: counts it, keeps it, and announces it if it is public.
-- KEYS[1] rate    rate:{p}:relay:<client>
-- KEYS[2] copies  copies:{p}:<payload digest>
-- KEYS[3] idem    idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[4] entity  thread:{p}:<id> for a public message, relay:{p}:<id> for any other
-- KEYS[5] events  events:{p}
-- ARGV[1] count   the limit
-- ARGV[2] seconds  its window
-- ARGV[3] digest  of the body, under its Idempotency-Key; empty = none
-- ARGV[4] idem_ttl  milliseconds
-- ARGV[5] message_id
-- ARGV[6] ttl     milliseconds; 0 = public: a board thread, and an event for the board
-- ARGV[7] client    for the workers: whose turn it is to be indexed, and for the operator
-- ARGV[8...] fields  name, value, ... of the entity
-- Returns {'kept'|'limited'|'loop'|'conflict', allowed, remaining, reset_ms} or {'replayed', …, id}
-- Slot    partition of the client address
-- include now
-- include take
-- include unlogged
-- include once
-- include remember
-- include announce
local loop_window = 60000  -- the third equal payload of a client within these milliseconds is a loop

local at = now()
local allowed, remaining, reset = take(rate, count, seconds, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end

local before, original = once(idem, digest)
if before then return {before, allowed, remaining, reset, original} end

if not unlogged('SET', copies, at, 'NX', 'PX', loop_window) then
  -- The time of the last copy and, after a space, of the one before. Silenced copies count, so a loop stays silent.
  local last, one_before = string.match(redis.call('GET', copies), '^(%d+) ?(%d*)$')
  unlogged('SET', copies, at .. ' ' .. last, 'PX', loop_window)
  if one_before ~= '' and math.abs(at - one_before) < loop_window then return {'loop', allowed, remaining, reset} end
end

if ttl == '0' then
  redis.call('HSET', entity, 'created_at', at, 'status', 'open', 'source', 'relay', unpack(ARGV, 8))
  announce(events, 'thread.posted', message_id, 'client', client)
else
  redis.call('HSET', entity, 'created_at', at, 'ttl', ttl, unpack(ARGV, 8))
  redis.call('PEXPIRE', entity, ttl)
end
remember(idem, digest, idem_ttl, message_id)
return {'kept', allowed, remaining, reset}
