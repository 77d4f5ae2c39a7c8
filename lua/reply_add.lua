#!lua
-- Adds one reply to an open thread, once for each Idempotency-Key and each request signature.
-- KEYS[1] thread   thread:{p}:<id>
-- KEYS[2] replies  replies:{p}:<id>
-- KEYS[3] rate     rate:{p}:reply:<id>:<client>
-- KEYS[4] idem     idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[5] replay   replay:{p}:<signature>; any key of the slot when replay_ttl is 0
-- KEYS[6] events   events:{p}
-- KEYS[7] site     rate:{p}:reply:<id>:<site of the client>; the same as rate if the client is its own site
-- ARGV[1] count    the limit
-- ARGV[2] seconds  its window
-- ARGV[3] digest   of the body, under its Idempotency-Key; empty = none
-- ARGV[4] idem_ttl milliseconds
-- ARGV[5] replay_ttl  milliseconds; 0 = not signed
-- ARGV[6] thread_id
-- ARGV[7] reply_id
-- ARGV[8] client     for the workers: whose turn it is to be indexed, and for the operator
-- ARGV[9] site_count  the limit of the site
-- ARGV[10...] fields  name, value, ... of the reply
-- Returns {'added', allowed, remaining, reset_ms, seq, created_at} | {'replayed', …, seq, created_at, reply id}
--       | {'limited'|'closed'|'conflict'|'signature', …} | {'unknown'}: unknown or hidden, and not counted
-- Slot    partition of the thread's id
-- include now
-- include take_both
-- include once
-- include remember
-- include announce
-- include first_use
local status, callback, source = unpack(redis.call('HMGET', thread, 'status', 'callback_url', 'source'))
if not status or status == 'hidden' then return {'unknown'} end

local at = now()
local allowed, remaining, reset = take_both(rate, site, count, site_count, seconds, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end

local before, original = once(idem, digest)
if before == 'replayed' then
  local seq, created, first = string.match(original, '^(%d+)@(%d+)@(.+)$')
  return {before, allowed, remaining, reset, tonumber(seq), tonumber(created), first}
end
if before then return {before, allowed, remaining, reset} end
if status ~= 'open' then return {'closed', allowed, remaining, reset} end
if not first_use(replay, replay_ttl, reply_id) then return {'signature', allowed, remaining, reset} end

local entry = redis.call('XADD', replies, '0-*', 'id', reply_id, 'at', at, unpack(ARGV, 10))
local seq = tonumber(string.sub(entry, 3))
redis.call('HSET', thread, 'reply_count', seq, 'last_reply_at', at)
remember(idem, digest, idem_ttl, string.format('%d@%.0f@%s', seq, at, reply_id))
announce(events, 'reply.posted', thread_id, 'seq', seq, 'callback', callback or '', 'source', source, 'client', client)
redis.call('SPUBLISH', thread, seq)
return {'added', allowed, remaining, reset, seq, at}
