#!lua
-- Records what the check of a posted URL found: the agent is listed, or not. An entry that was listed before is removed
-- only if its card is gone; any other failure leaves it as it is.
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] listed  agents-of:{p}:<host>
-- KEYS[3] due     agents-due:{p}
-- KEYS[4] events  events:{p}
-- ARGV[1] agent_id
-- ARGV[2] posted  the time of the posting that was checked
-- ARGV[3] verdict  listed | rejected | gone: the card answers 404 or 410
-- ARGV[4] reason  why not; empty if it is listed
-- ARGV[5] life    milliseconds until the entry ends unless it is renewed
-- ARGV[6] spare   milliseconds after that at which Redis drops it, should no worker have done so
-- ARGV[7] kept    milliseconds for which a rejected one stays to be read
-- ARGV[8] again   milliseconds until the next probe of one that stays
-- ARGV[9...] fields  name, value, ... of the entry, if it is listed
-- Returns {'listed', ends_at} | {'stays'} | {'rejected'} | {'stale'}: checked by another worker, or gone meanwhile
-- Slot    partition of the host
-- include now
-- include enlist
-- include announce
-- include announce_removal
local status, posting, ends, by, shown = unpack(redis.call('HMGET', agent, 'status', 'posted', 'ends_at', 'by', 'shown'))
if status ~= 'checking' or posting ~= posted then return {'stale'} end

local at = now()
if verdict == 'listed' then
  local ends_at = enlist(agent, listed, due, agent_id, at, life, spare)
  redis.call('HSET', agent, 'checked_at', at, unpack(ARGV, 9))
  announce(events, 'agent.listed', agent_id, 'site', string.sub(by, 1, 16))
  redis.call('SPUBLISH', agent, 'listed')
  return {'listed', ends_at}
end

if ends and verdict == 'rejected' then
  redis.call('HSET', agent, 'status', 'listed', 'reason', reason, 'checked_at', at)
  redis.call('ZADD', listed, ends, agent_id)
  redis.call('ZADD', due, at + again, agent_id)
  redis.call('SPUBLISH', agent, 'stays')
  return {'stays'}
end

redis.call('ZREM', listed, agent_id)
redis.call('ZREM', due, agent_id)
if ends then announce_removal(events, agent_id, shown) end
-- What its card said is forgotten. Who posted it, and when, is kept.
local said = {}
for _, name in ipairs(redis.call('HKEYS', agent)) do
  if name ~= 'posted' and name ~= 'by' then table.insert(said, name) end
end
redis.call('HDEL', agent, unpack(said))
redis.call('HSET', agent, 'status', 'rejected', 'reason', reason, 'checked_at', at, unpack(ARGV, 9))
redis.call('PEXPIRE', agent, kept)
redis.call('SPUBLISH', agent, 'rejected')
return {'rejected'}
