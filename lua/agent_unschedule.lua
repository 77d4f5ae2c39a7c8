#!lua flags=allow-oom
-- Takes an agent off the schedule of checks if it has no entry any more. Allowed when memory is full: it frees some.
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] due     agents-due:{p}
-- ARGV[1] agent_id
-- Returns {'done'}
-- Slot    partition of the address or host
if redis.call('HEXISTS', agent, 'status') == 0 then redis.call('ZREM', due, agent_id) end
return {'done'}
