#!lua
-- Records the result of the check of a posted URL: the agent is listed, or not. An entry that was listed before is
-- removed only if its card is gone. Any other failure leaves the entry unchanged.
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] listed  agents-of:{p}:<host>
-- KEYS[3] due     agents-due:{p}
-- KEYS[4] events  events:{p}
-- ARGV[1] agent_id
-- ARGV[2] posted  the time of the posting that was checked
-- ARGV[3] verdict  listed | rejected | gone: the card answers 404 or 410
-- ARGV[4] reason  why the agent is not listed; empty if it is
-- ARGV[5] life    milliseconds until the entry ends unless it is renewed
-- ARGV[6] spare   milliseconds after that end at which Redis drops the entry if no worker has removed it
-- ARGV[7] kept    milliseconds for which a rejected entry can be read
-- ARGV[8] again   milliseconds until the next probe of an entry that stays listed
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
-- Everything from the card is deleted. Who posted the agent, and when, is kept.
local said = {}
for _, name in ipairs(redis.call('HKEYS', agent)) do
  if name ~= 'posted' and name ~= 'by' then table.insert(said, name) end
end
redis.call('HDEL', agent, unpack(said))
redis.call('HSET', agent, 'status', 'rejected', 'reason', reason, 'checked_at', at, unpack(ARGV, 9))
redis.call('PEXPIRE', agent, kept)
redis.call('SPUBLISH', agent, 'rejected')
return {'rejected'}
