#!lua flags=no-writes
-- Reads fields of a contract, and the time by which its lease is judged.
-- KEYS[1] task    task:{p}:<id>
-- ARGV[1...] names  of the fields
-- Returns {now, {value or nil, ...}}; all values are nil for an unknown id
-- Slot    partition of the id
-- include now
return {now(), redis.call('HMGET', task, unpack(ARGV))}
