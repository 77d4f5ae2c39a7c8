#!lua flags=allow-oom
-- Puts one string in the place of a contract that is over for good, if the contract is still as it was read: one that
-- failed may be tried again. It frees memory, so it runs when there is none left.
-- KEYS[1] task    task:{p}:<id>
-- KEYS[2] packed  packed:{p}:<id>
-- ARGV[1] fields  how many the contract had
-- ARGV[2] content  of that string
-- Returns {'compacted'} | {'open'}: not over, or gone | {'changed'}: a field came or went
-- Slot    partition of the id
local status = redis.call('HGET', task, 'status')
if status ~= 'completed' and status ~= 'canceled' and status ~= 'expired' then return {'open'} end
if redis.call('HLEN', task) ~= tonumber(fields) then return {'changed'} end
redis.call('SET', packed, content)
redis.call('UNLINK', task)
return {'compacted'}
