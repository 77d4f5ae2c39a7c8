#!lua
-- Registers one artifact, once for each Idempotency-Key: counts the request and the bytes it promises, and keeps
-- the manifest. Either all of that happened, or none.
-- KEYS[1] rate      rate:{p}:artifact:<client>
-- KEYS[2] idem      idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[3] artifact  artifact:{p}:<id>
-- KEYS[4] due       artifacts:{p}
-- KEYS[5] bytes     artifact-bytes:{p}
-- ARGV[1] count     the limit
-- ARGV[2] window    its milliseconds
-- ARGV[3] digest    of the body, under its Idempotency-Key; empty = none
-- ARGV[4] idem_ttl  milliseconds
-- ARGV[5] id
-- ARGV[6] client    its address
-- ARGV[7] size      bytes
-- ARGV[8] client_most  bytes that one client may hold
-- ARGV[9] most      bytes that the partition may hold, given what the others do
-- ARGV[10] free     bytes that the blob store can still take; -1 = it does not know
-- ARGV[11] life     milliseconds until an artifact that is not completed is removed
-- ARGV[12...] fields  name, value, ...
-- Returns {'registered', allowed, remaining, reset_ms, now, {name, value, ...}} | {'replayed', …, id}
--       | {'limited'|'conflict'|'full', …} | {'quota', …, bytes held}
-- Slot    partition of the client address
-- include now
-- include take
-- include once
-- include remember
local at = now()
local allowed, remaining, reset = take(rate, count, window, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end

local before, original = once(idem, digest)
if before then return {before, allowed, remaining, reset, original} end

local mine, all = unpack(redis.call('HMGET', bytes, client, 'all'))
if free ~= '-1' and tonumber(size) > tonumber(free) then return {'full', allowed, remaining, reset} end
if (all or 0) + size > tonumber(most) then return {'full', allowed, remaining, reset} end
if (mine or 0) + size > tonumber(client_most) then return {'quota', allowed, remaining, reset, tonumber(mine or 0)} end

local ends = at + life
redis.call('HSET', artifact, 'status', 'registered', 'attempt', 0, 'created_at', at, 'expires_at', ends,
  'upload_until', ends, 'client', client, 'byte_size', size, unpack(ARGV, 12))
redis.call('ZADD', due, ends, id)
redis.call('HINCRBY', bytes, client, size)
redis.call('HINCRBY', bytes, 'all', size)
remember(idem, digest, idem_ttl, id)
return {'registered', allowed, remaining, reset, at, redis.call('HGETALL', artifact)}
