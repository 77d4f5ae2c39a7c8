#!lua flags=allow-oom
-- Removes a contract, compacted or not: one whose time is over if it still has the status by which that was judged, unless
-- somebody is at work on it; or any for the operator.
-- KEYS[1] task    task:{p}:<id>
-- KEYS[2] packed  packed:{p}:<id>
-- KEYS[3] leases  leases:{p}
-- KEYS[4] events  events:{p}
-- ARGV[1] id
-- ARGV[2] judged  that status; empty = remove it in any case
-- Returns {'forgotten'} | {'changed'}: it has another status | {'claimed'}: claimed, in progress or submitted | {'gone'}
-- Slot    partition of the id
-- include announce
local kind, status = unpack(redis.call('HMGET', task, 'kind', 'status'))
if judged ~= '' then
  if status == 'claimed' or status == 'in_progress' or status == 'submitted' then return {'claimed'} end
  if status and status ~= judged then return {'changed'} end
end
if kind == 'message' then return {'gone'} end
if redis.call('UNLINK', task, packed) == 0 then return {'gone'} end
redis.call('ZREM', leases, id)
announce(events, 'task.forgotten', id)
redis.call('SPUBLISH', task, 'forgotten')
return {'forgotten'}
