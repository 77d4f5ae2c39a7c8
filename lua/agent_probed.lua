#!lua
-- Records what a probe of an agent found, and schedules the next probe. Several consecutive probes must agree before
-- the liveness of the agent changes, unless no liveness was known or the endpoint of the agent has changed. Probes
-- become rarer while nothing changes. An agent that is unreachable for long is hidden, and shown again when that
-- changes. A changed card replaces the previous one, unless somebody has posted the agent meanwhile.
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] listed  agents-of:{p}:<address or host>
-- KEYS[3] due     agents-due:{p}
-- KEYS[4] events  events:{p}
-- ARGV[1] agent_id
-- ARGV[2] found   open | gated | wrong_protocol | unreachable | unknown; gone: the card answers 404 or 410, which
--                 counts only if nobody has posted the agent meanwhile; empty = it could not be probed now
-- ARGV[3] tolerated  consecutive probes that must agree on another liveness before it changes
-- ARGV[4] day     milliseconds until the next probe, and by which that pause grows
-- ARGV[5] calm    consecutive probes without a change after which the pause grows
-- ARGV[6] longest  milliseconds; the longest pause
-- ARGV[7] again   milliseconds until the next attempt, if the agent could not be probed now
-- ARGV[8] hides   milliseconds of being unreachable after which the agent is hidden
-- ARGV[9] posted  the time of the posting that was probed
-- ARGV[10] checked  the time of the previous check when the probe began; 0 = there was none
-- ARGV[11] reason  why its present card is not accepted; empty = it is accepted; * = not known
-- ARGV[12...] fields  name, value, ... of the entry, if its card has changed
-- Returns {'probed', liveness, milliseconds until the next probe} | {'later'} | {'removed'} | {'unknown'}: not listed
--       | {'asked'}: somebody has posted it meanwhile, and its check is due
--       | {'stale'}: another worker has probed it meanwhile, and what this one found is older
-- Slot    partition of the address or host
-- include now
-- include announce
-- include unlist
local ends_at, status, liveness, doubt, doubts, same, since, shown, by, posting, url, binding, known = unpack(redis.call(
  'HMGET', agent, 'ends_at', 'status', 'liveness', 'doubt', 'doubts', 'same', 'since', 'shown', 'by', 'posted', 'url',
  'binding', 'checked_at'))
if status == 'checking' then return {'asked'} end
if not ends_at then
  redis.call('ZREM', due, agent_id)
  return {'unknown'}
end
if tonumber(known or 0) ~= tonumber(checked) then return {'stale'} end
local at = now()
if found == '' or (found == 'gone' and posting ~= posted) then
  redis.call('ZADD', due, at + again, agent_id)
  return {'later'}
end
if found == 'gone' then
  unlist(agent, listed, due, events, agent_id)
  return {'removed'}
end

local has_changed, is_elsewhere = false, false
if posting == posted then
  if reason ~= '*' then redis.call('HSET', agent, 'reason', reason) end
  if ARGV[12] then
    redis.call('HSET', agent, unpack(ARGV, 12))
    local now_at, now_by = unpack(redis.call('HMGET', agent, 'url', 'binding'))
    has_changed, is_elsewhere = true, now_at ~= url or now_by ~= binding
  end
end

local before = liveness or 'unknown'
liveness, doubts, same = before, tonumber(doubts or 0), tonumber(same or 0)
if found == liveness then
  doubt, doubts, same = '', 0, same + 1
else
  doubts, same = found == doubt and doubts + 1 or 1, 0
  doubt = found
  if before == 'unknown' or is_elsewhere or doubts >= tonumber(tolerated) then
    liveness, doubt, doubts = found, '', 0
    since = liveness == 'unreachable' and at or ''
  end
end
redis.call('HSET', agent, 'liveness', liveness, 'doubt', doubt, 'doubts', doubts, 'same', same, 'since', since or '',
  'checked_at', at)

local is_long_gone = liveness == 'unreachable' and at - (tonumber(since) or at) >= tonumber(hides)
if is_long_gone and shown then
  redis.call('HDEL', agent, 'shown')
  announce(events, 'agent.removed', agent_id)
elseif not is_long_gone and not shown then
  redis.call('HSET', agent, 'shown', 1)
  announce(events, 'agent.listed', agent_id, 'site', string.sub(by, 1, 16))
elseif has_changed and shown then
  announce(events, 'agent.listed', agent_id, 'site', string.sub(by, 1, 16))
elseif liveness ~= before then
  announce(events, 'check.changed', agent_id)
end
local pause = math.min(day * (1 + math.floor(same / calm)), tonumber(longest))
redis.call('ZADD', due, at + pause, agent_id)
return {'probed', liveness, pause}
