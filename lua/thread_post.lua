#!lua
-- Posts one thread, once for each Idempotency-Key and each request signature: counts the thread, and keeps it if its
-- client has room for it. A repeated request needs no room.
-- KEYS[1] rate    rate:{p}:board:<client>
-- KEYS[2] own     held:{p}:board:<client>
-- KEYS[3] site    held:{p}:board:<site of the client>; the same as own if the client is its own site
-- KEYS[4] thread  thread:{p}:<id>
-- KEYS[5] idem    idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[6] replay  replay:{p}:<signature>; any key of the slot when replay_ttl is 0
-- KEYS[7] events  events:{p}
-- KEYS[8] doc     doc:{p}:<id>
-- ARGV[1] count   the limit; 0 = none, and no quota
-- ARGV[2] seconds  its window
-- ARGV[3] most    threads that the client may post in a day; 0 = any number
-- ARGV[4] site_most  those of its site; 0 = any number
-- ARGV[5] digest  of the body, under its Idempotency-Key; empty = none
-- ARGV[6] idem_ttl  milliseconds
-- ARGV[7] replay_ttl  milliseconds; 0 = not signed, or the signature is already bound to the Idempotency-Key
-- ARGV[8] thread_id
-- ARGV[9] client  for the workers: whose turn it is to be indexed, and for the operator
-- ARGV[10] whole   1 = the terms are those of the whole text, 0 = of its beginning; empty = none are kept
-- ARGV[11] terms   of the title and body, for the search
-- ARGV[12] marks   of these terms
-- ARGV[13...] fields  name, value, ...
-- Returns {'posted', allowed, remaining, reset_ms, created_at} | {'replayed', …, id, created_at}
--       | {'limited'|'conflict', …} | {'signature', …}: it was used before
--       | {'quota', …, wait_ms}: the next place in a full quota is free after wait_ms
-- Slot    partition of the client's site
-- include now
-- include take
-- include once
-- include remember
-- include wait_for_place
-- include hold_place
-- include keep_terms
-- include announce
-- include first_use
local day = 86400000

local at = now()
local allowed, remaining, reset = take(rate, count, seconds, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end

local before, original = once(idem, digest)
if before == 'replayed' then
  local first, created = string.match(original, '^(.+)@(%d+)$')
  return {before, allowed, remaining, reset, first, tonumber(created)}
end
if before then return {before, allowed, remaining, reset} end

local quotas = {{own, most}}
if site ~= own then table.insert(quotas, {site, site_most}) end
local wait = wait_for_place(quotas, day, at)
if wait then return {'quota', allowed, remaining, reset, wait} end
if not first_use(replay, replay_ttl, thread_id) then return {'signature', allowed, remaining, reset} end

if count ~= '0' then hold_place(quotas, at + day, string.sub(thread_id, -12)) end
redis.call('HSET', thread, 'created_at', at, unpack(ARGV, 13))
keep_terms(doc, whole, terms, marks)
announce(events, 'thread.posted', thread_id, 'client', client)
remember(idem, digest, idem_ttl, string.format('%s@%.0f', thread_id, at))
return {'posted', allowed, remaining, reset, at}
