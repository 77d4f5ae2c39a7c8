#!lua flags=allow-oom
-- Removes the entry of an agent if its time is over, and announces the removal exactly once. An entry that was posted
-- again is first kept for its check, for as long as a new entry would be. If Redis has dropped the entry already, a
-- mark takes its place for a while and says that the removal was announced. Allowed when memory is full: it frees more
-- memory than the mark takes.
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] events  events:{p}
-- ARGV[1] agent_id
-- ARGV[2] dropped  the time (ms) at which Redis drops it, if no worker has removed it by then
-- ARGV[3] spare   milliseconds from the end of the entry until then
-- ARGV[4] kept    milliseconds that an entry posted again waits for its check, and that the mark stays
-- Returns {'gone'}: the entry no longer exists | {'stays', ends_at}: it was renewed, or waits for its check
-- Slot    partition of the id
-- include now
-- include announce_removal
local ends_at, status, posted, shown = unpack(redis.call('HMGET', agent, 'ends_at', 'status', 'posted', 'shown'))
local at, waits = now(), status == 'checking' and posted + kept or 0
ends_at = ends_at and tonumber(ends_at)
if ends_at and waits > at then
  ends_at = math.max(ends_at, waits)
  redis.call('HSET', agent, 'ends_at', ends_at)
  redis.call('PEXPIREAT', agent, ends_at + spare)
end
if ends_at and ends_at > at then return {'stays', ends_at} end
if ends_at then
  redis.call('UNLINK', agent)
  announce_removal(events, agent_id, shown)
elseif at >= tonumber(dropped) and redis.call('EXISTS', agent) == 0 then
  redis.call('HSET', agent, 'told', at)
  redis.call('PEXPIRE', agent, kept)
  announce_removal(events, agent_id, true)
end
return {'gone'}
