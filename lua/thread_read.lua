#!lua flags=no-writes
-- Reads a thread and the replies after a sequence number, as they are at one moment.
-- KEYS[1] thread   thread:{p}:<id>
-- KEYS[2] replies  replies:{p}:<id>
-- ARGV[1] since    sequence number already seen
-- ARGV[2] limit    replies at most
-- Returns {{name, value, ...}, {{entry id, {name, value, ...}}, ...}}; the first is empty for an unknown thread
-- Slot    partition of the thread's id
return {redis.call('HGETALL', thread), redis.call('XRANGE', replies, '(0-' .. since, '+', 'COUNT', limit)}
