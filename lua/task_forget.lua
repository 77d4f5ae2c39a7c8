#!lua flags=allow-oom
-- Removes a contract, compacted or not. For retention: only if it is unchanged since its time was found to be over, and
-- nobody works on it. For the operator: in any case.
-- KEYS[1] task    task:{p}:<id>
-- KEYS[2] packed  packed:{p}:<id>
-- KEYS[3] leases  leases:{p}
-- KEYS[4] events  events:{p}
-- ARGV[1] id
-- ARGV[2] judged  status and attempt at that time, such as `offered 2`; empty = remove it in any case
-- Returns {'forgotten'} | {'changed'}: it has changed since | {'claimed'}: claimed, in progress or submitted | {'gone'}
-- Slot    partition of the id
-- include announce
local kind, status, attempt = unpack(redis.call('HMGET', task, 'kind', 'status', 'attempt'))
if judged ~= '' then
  if status == 'claimed' or status == 'in_progress' or status == 'submitted' then return {'claimed'} end
  if status and status .. ' ' .. attempt ~= judged then return {'changed'} end
end
if kind == 'message' then return {'gone'} end
if redis.call('UNLINK', task, packed) == 0 then return {'gone'} end
redis.call('ZREM', leases, id)
announce(events, 'task.forgotten', id)
redis.call('SPUBLISH', task, 'forgotten')
return {'forgotten'}
