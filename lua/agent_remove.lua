#!lua flags=allow-oom
-- Removes the entry of an agent. Allowed when memory is full: it frees memory.
-- KEYS[1] agent   agent:{p}:<id>
-- KEYS[2] listed  agents-of:{p}:<address or host>
-- KEYS[3] inbox   inbox:{p}:<address>
-- KEYS[4] due     agents-due:{p}
-- KEYS[5] replay  replay:{p}:<signature>; any key of the slot when the request is not signed
-- KEYS[6] events  events:{p}
-- ARGV[1] replay_ttl  milliseconds; 0 = not signed
-- ARGV[2] proof   the epoch of the token shown; * = the key of the address has signed, or an operator asks; empty = the
--                 inbox whose token has listed it is closed
-- ARGV[3] agent_id
-- Returns {'removed'} | {'unknown'} | {'token'} | {'signature'}: that signature was used before
-- Slot    partition of the address or host
-- include unlist
-- include first_use
if redis.call('HEXISTS', agent, 'status') == 0 then return {'unknown'} end
if proof ~= '*' and (redis.call('HGET', inbox, 'epoch') or '') ~= proof then return {'token'} end
if not first_use(replay, replay_ttl, agent_id) then return {'signature'} end
unlist(agent, listed, due, events, agent_id)
return {'removed'}
