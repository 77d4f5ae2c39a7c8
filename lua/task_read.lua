#!lua flags=no-writes
-- Reads fields of a contract, or all if none is named, and the time by which its lease is judged.
-- KEYS[1] task    task:{p}:<id>
-- ARGV[1...] names  of the fields
-- Returns {now, {value or nil, ...}}, all values nil for an unknown id | {now, {name, value, ...}}
-- Slot    partition of the id
-- include now
if #ARGV == 0 then return {now(), redis.call('HGETALL', task)} end
return {now(), redis.call('HMGET', task, unpack(ARGV))}
