#!lua flags=allow-oom
-- Blocks a network or a key, or replaces its block, and informs the web processes. Allowed when memory is full: it must
-- be possible to keep out a client that has filled it.
-- KEYS[1] blocked
-- ARGV[1] network  or the thumbprint of a key
-- ARGV[2] block    why, and for how long
-- Returns {'blocked'}
-- Slot    that of the key
redis.call('HSET', blocked, network, block)
redis.call('SPUBLISH', blocked, '')
return {'blocked'}
