#!lua
-- Accepts one relay message: counts it, knows a repeated one, keeps it, and tells of it. Either all of
-- that happened, or none.
-- KEYS[1] rate    rate:{p}:relay:<client>
-- KEYS[2] loop    loop:{p}:<payload digest>
-- KEYS[3] idem    idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[4] entity  thread:{p}:<id> of a public message, relay:{p}:<id> of one that is not
-- KEYS[5] events  events:{p}
-- ARGV[1] count   the limit
-- ARGV[2] window  its milliseconds
-- ARGV[3] repeats of one payload at which it is a loop
-- ARGV[4] memory  milliseconds for which repeats are counted
-- ARGV[5] digest  of the body, under its Idempotency-Key; empty = none
-- ARGV[6] idem_ttl  milliseconds
-- ARGV[7] id      of the message
-- ARGV[8] ttl     milliseconds; 0 = public: kept, and an event for the board
-- ARGV[9...] fields  name, value, ... of the entity
-- Returns {'kept'|'limited'|'loop'|'conflict', allowed, remaining, reset_ms} or {'replayed', …, id}
-- Slot    partition of the client address
-- include now
-- include take
-- include once
-- include remember
-- include announce
local at = now()
local allowed, remaining, reset = take(rate, count, window, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end

local before, original = once(idem, digest)
if before then return {before, allowed, remaining, reset, original} end

local seen = redis.call('INCR', loop)
if seen == 1 then redis.call('PEXPIRE', loop, memory) end
if seen >= tonumber(repeats) then return {'loop', allowed, remaining, reset} end

redis.call('HSET', entity, 'created_at', at, unpack(ARGV, 9))
if ttl == '0' then
  announce(events, 'thread.posted', id)
else
  redis.call('PEXPIRE', entity, ttl)
end
remember(idem, digest, idem_ttl, id)
return {'kept', allowed, remaining, reset}
