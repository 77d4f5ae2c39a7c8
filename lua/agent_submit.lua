#!lua
-- Schedules a check of the agent at a URL, listed or not, once for each Idempotency-Key. A check that a worker has
-- begun continues. A listed entry does not end before it is checked (`agent_expire`).
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] listed  agents-of:{p}:<host>: ids of all entries of the host, by the time (ms) at which they end
-- KEYS[3] due     agents-due:{p}
-- KEYS[4] idem    idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[5] events  events:{p}
-- ARGV[1] digest  of the body, under its Idempotency-Key; empty = none
-- ARGV[2] idem_ttl  milliseconds
-- ARGV[3] agent_id
-- ARGV[4] most    entries of one host, those that are being checked included
-- ARGV[5] kept    milliseconds for which an entry that is not listed can be read, and a listed one waits for its check
-- ARGV[6] holds   milliseconds for which an entry that is not listed counts among the entries of its host
-- ARGV[7] spare   milliseconds after the end of a listed entry at which Redis drops it if no worker has removed it
-- ARGV[8] client  for the operator; not recorded if the entry exists already
-- ARGV[9...] fields  name, value, ...
-- Returns {'checking'} | {'replayed'} | {'conflict'} | {'full'}
-- Slot    partition of the host
-- include now
-- include once
-- include remember
-- include announce
local before = once(idem, digest)
if before then return {before} end

local at = now()
redis.call('ZREMRANGEBYSCORE', listed, '-inf', at)
if not redis.call('ZSCORE', listed, agent_id) and redis.call('ZCARD', listed) >= tonumber(most) then return {'full'} end

local status, ends = unpack(redis.call('HMGET', agent, 'status', 'ends_at'))
local is_known = ends or status == 'checking'
if status ~= 'checking' or tonumber(redis.call('ZSCORE', due, agent_id) or 0) <= at then
  redis.call('HSET', agent, 'status', 'checking', 'reason', '', 'posted', at, unpack(ARGV, 9))
  if not ends then redis.call('PEXPIRE', agent, kept) end
  if ends and tonumber(ends) < at + holds then
    redis.call('HSET', agent, 'ends_at', at + holds)
    redis.call('PEXPIREAT', agent, at + holds + spare)
  end
  redis.call('ZADD', listed, math.max(tonumber(ends or 0), at + (ends and kept or holds)), agent_id)
  redis.call('PEXPIREAT', listed, redis.call('ZRANGE', listed, -1, -1, 'WITHSCORES')[2])
  redis.call('ZADD', due, 'LT', at, agent_id)
  announce(events, 'check.asked', agent_id, 'client', is_known and '' or client)
end
remember(idem, digest, idem_ttl, agent_id)
return {'checking'}
