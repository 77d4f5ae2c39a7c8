#!lua flags=allow-oom
-- Replaces the hash of a contract that is over for good with one compressed string, unless the contract has changed
-- since it was read. A failed contract is not over for good: it may be retried. Allowed when memory is full: it frees
-- memory.
-- KEYS[1] task    task:{p}:<id>
-- KEYS[2] packed  packed:{p}:<id>
-- ARGV[1] fields  number of fields that the contract had
-- ARGV[2] content  of the compressed string
-- Returns {'compacted'} | {'open'}: not over, or gone | {'changed'}: a field was added or removed
-- Slot    partition of the id
local status = redis.call('HGET', task, 'status')
if status ~= 'completed' and status ~= 'canceled' and status ~= 'expired' then return {'open'} end
if redis.call('HLEN', task) ~= tonumber(fields) then return {'changed'} end
redis.call('SET', packed, content)
redis.call('UNLINK', task)
return {'compacted'}
