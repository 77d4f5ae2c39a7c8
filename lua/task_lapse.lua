#!lua
-- Ends a claim whose lease has ended, for the sweep. Nothing changes if it was extended or is over already;
-- what needs no lease leaves the list of leases.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] events   events:{p}
-- ARGV[1] id
-- Returns {status}, the one after; empty for what is no contract
-- Slot    partition of the id
-- include now
-- include lapse
local status = lapse(task, events, leases, id, now())
if status ~= 'claimed' and status ~= 'in_progress' then redis.call('ZREM', leases, id) end
return {status or ''}
