#!lua flags=no-writes
-- Reads fields of an inbox, and how much it holds.
-- KEYS[1] inbox  inbox:{p}:<address>
-- KEYS[2] ends   inbox-ends:{p}:<address>: places of unsettled messages by the time (ms) at which they expire
-- ARGV[1...] names  of the fields wanted
-- Returns {'inbox', now, waiting, bytes, {value or nil, ...}} | {'gone'}
-- Slot    partition of the address
-- include now
-- include measure_held
if redis.call('EXISTS', inbox) == 0 then return {'gone'} end
local at = now()
local waiting, bytes = measure_held(ends, at)
return {'inbox', at, waiting, bytes, redis.call('HMGET', inbox, unpack(ARGV))}
