#!lua flags=no-writes
-- Reads fields of a contract, or all fields if none is named, and the time by which its lease is judged. If all fields
-- are wanted, the record of an A2A message, whose key looks the same, is not read: the message may be large, and no
-- reader of contracts shows it.
-- KEYS[1] task    task:{p}:<id>
-- ARGV[1...] names  of the fields
-- Returns {now, {value or nil, ...}}, all values nil for an unknown id
--       | {now, {name, value, ...}}, empty for an unknown id and for a message
-- Slot    partition of the id
-- include now
if #ARGV > 0 then return {now(), redis.call('HMGET', task, unpack(ARGV))} end
if redis.call('HGET', task, 'kind') ~= 'contract' then return {now(), {}} end
return {now(), redis.call('HGETALL', task)}
