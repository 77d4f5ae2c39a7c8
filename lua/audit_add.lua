#!lua flags=allow-oom
-- Notes what the operator did; the oldest notes go. It runs when memory is full, too: what is done then is to be known
-- as well, and it keeps a bounded number.
-- KEYS[1] audit
-- ARGV[1] most       notes that are kept
-- ARGV[2...] fields  name, value, name, value
-- Returns {'noted'}
-- Slot    that of the key
redis.call('XADD', audit, 'MAXLEN', most, '*', unpack(ARGV, 2))
return {'noted'}
