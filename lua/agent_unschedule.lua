#!lua flags=allow-oom
-- Removes an agent from the schedule of checks if it no longer has an entry. Allowed when memory is full: it frees
-- memory.
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] due     agents-due:{p}
-- ARGV[1] agent_id
-- Returns {'done'}
-- Slot    partition of the address or host
if redis.call('HEXISTS', agent, 'status') == 0 then redis.call('ZREM', due, agent_id) end
return {'done'}
