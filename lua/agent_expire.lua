#!lua flags=allow-oom
-- Removes the entry of an agent if its time is over. Allowed without memory, which it frees.
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] events  events:{p}
-- ARGV[1] agent_id
-- Returns {'gone'}: there is none any more | {'stays', ends_at}: it was renewed
-- Slot    partition of the id
-- include now
-- include announce
local ends_at = tonumber(redis.call('HGET', agent, 'ends_at'))
if ends_at and ends_at > now() then return {'stays', ends_at} end
if ends_at or redis.call('EXISTS', agent) == 0 then -- else it is gone already, and was posted again
  redis.call('UNLINK', agent)
  announce(events, 'agent.removed', agent_id)
end
return {'gone'}
