#!lua
-- Records, for the sweep, what time alone has changed about a contract, and schedules the next such change. Nothing
-- happens if the time of the change was moved, or the change is recorded already. If this fails for a contract, the
-- contract is due again after a while, so that it is not always the first one that is due.
-- KEYS[1] task     task:{p}:<id>
-- KEYS[2] leases   leases:{p}
-- KEYS[3] events   events:{p}
-- ARGV[1] id
-- ARGV[2] again    milliseconds after which the contract is due again if this fails
-- Returns {status} after the change; empty if this is no contract
-- Slot    partition of the id
-- include now
-- include lapse
-- include plan
local at = now()
redis.call('ZADD', leases, at + again, id)
local status = lapse(task, events, id, at)
plan(task, leases, id)
return {status or ''}
