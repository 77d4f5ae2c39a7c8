#!lua flags=allow-oom
-- Removes the entry of an agent if its time is over, and announces that once, whoever else has removed it meanwhile. One
-- that was posted again is checked first, for which there is as much time as for a new one. Of one that Redis has
-- dropped, a mark is left in its place for a while: that its removal is announced. Allowed without memory, which it frees
-- but for that mark.
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] events  events:{p}
-- ARGV[1] agent_id
-- ARGV[2] dropped  the time (ms) at which Redis has dropped it, if no worker had removed it by then
-- ARGV[3] spare   milliseconds from its end until then
-- ARGV[4] kept    milliseconds for which one that was posted waits for its check
-- Returns {'gone'}: there is none any more | {'stays', ends_at}: it was renewed
-- Slot    partition of the id
-- include now
-- include tell_removed
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
  tell_removed(events, agent_id, shown)
elseif at >= tonumber(dropped) and redis.call('EXISTS', agent) == 0 then
  redis.call('HSET', agent, 'told', at)
  redis.call('PEXPIRE', agent, kept)
  tell_removed(events, agent_id, true)
end
return {'gone'}
