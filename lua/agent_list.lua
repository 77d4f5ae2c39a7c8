#!lua
-- Lists an agent by its card, or renews its entry, once for each Idempotency-Key and each request signature.
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] listed  agents-of:{p}:<address>: ids of all entries of the address, by the time (ms) at which they end
-- KEYS[3] inbox   inbox:{p}:<address>
-- KEYS[4] due     agents-due:{p}
-- KEYS[5] idem    idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[6] replay  replay:{p}:<signature>; any key of the slot when the request is not signed
-- KEYS[7] events  events:{p}
-- ARGV[1] digest  of the body, under its Idempotency-Key; empty = none
-- ARGV[2] idem_ttl  milliseconds
-- ARGV[3] replay_ttl  milliseconds; 0 = not signed
-- ARGV[4] proof   the epoch of the token shown; * = the key of the address has signed
-- ARGV[5] agent_id
-- ARGV[6] life    milliseconds until the entry ends unless it is renewed
-- ARGV[7] spare   milliseconds after that end at which Redis drops the entry if no worker has removed it
-- ARGV[8] most    entries of one address
-- ARGV[9] client  for the workers: whose turn it is to be indexed, and for the operator
-- ARGV[10...] fields  name, value, ...
-- Returns {'listed', ends_at} | {'replayed', ends_at} | {'conflict'} | {'token'} | {'full'}
--       | {'gone'}: there is no such inbox | {'signature'}: that signature was used before
-- Slot    partition of the address
-- include now
-- include once
-- include remember
-- include enlist
-- include announce
-- include first_use
local before, original = once(idem, digest)
if before == 'replayed' then
  local _, ends = string.match(original, '^(.+)@(%d+)$')
  return {before, tonumber(ends)}
end
if before then return {before} end

if proof ~= '*' then
  local epoch = redis.call('HGET', inbox, 'epoch')
  if not epoch then return {'gone'} end
  if epoch ~= proof then return {'token'} end
end
local at = now()
redis.call('ZREMRANGEBYSCORE', listed, '-inf', at)
if not redis.call('ZSCORE', listed, agent_id) and redis.call('ZCARD', listed) >= tonumber(most) then return {'full'} end
if not first_use(replay, replay_ttl, agent_id) then return {'signature'} end

local ends_at = enlist(agent, listed, due, agent_id, at, life, spare)
redis.call('HSET', agent, unpack(ARGV, 10))
announce(events, 'agent.listed', agent_id, 'client', client)
remember(idem, digest, idem_ttl, string.format('%s@%.0f', agent_id, ends_at))
return {'listed', ends_at}
