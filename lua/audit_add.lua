#!lua flags=allow-oom
-- Adds an entry to the audit log, and removes the oldest entries beyond `most`. Allowed when memory is full: what the
-- operator does then must be recorded, too, and the number of entries is bounded.
-- KEYS[1] audit
-- ARGV[1] most       entries that are kept
-- ARGV[2...] fields  name, value, name, value
-- Returns {'noted'}
-- Slot    that of the key
redis.call('XADD', audit, 'MAXLEN', most, '*', unpack(ARGV, 2))
return {'noted'}
