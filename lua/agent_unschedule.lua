#!lua flags=allow-oom
-- Takes an agent off the schedule of checks if there is no entry of it any more. Allowed without memory, which it frees.
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] due     agents-due:{p}
-- ARGV[1] agent_id
-- Returns {'done'}
-- Slot    partition of the address or host
if redis.call('HEXISTS', agent, 'status') == 0 then redis.call('ZREM', due, agent_id) end
return {'done'}
