#!lua
-- Adds a contract from another node, unless this node has it. A claim is a right that only the other node granted, so a
-- contract that is claimed there is on offer here. A contract that is over stays over.
-- KEYS[1] task    task:{p}:<id>
-- KEYS[2] packed  packed:{p}:<id>
-- KEYS[3] leases  leases:{p}
-- KEYS[4] events  events:{p}
-- ARGV[1] id
-- ARGV[2] over    1 = the contract is over and changes no more
-- ARGV[3...] fields  name, value, ...
-- Returns {'imported'} | {'known'}
-- Slot    partition of the id
-- include now
-- include reoffer
-- include plan
-- include announce
if redis.call('EXISTS', task) == 1 or redis.call('EXISTS', packed) == 1 then return {'known'} end
redis.call('HSET', task, unpack(ARGV, 3))
local status, opens = unpack(redis.call('HMGET', task, 'status', 'retry_at'))
if status ~= 'offered' and over ~= '1' then reoffer(task, now(), opens) end
plan(task, leases, id)
announce(events, 'task.imported', id)
return {'imported'}
