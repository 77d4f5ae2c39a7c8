#!lua flags=allow-oom
-- Records that a message was given to the owner to read. Idempotent, and without effect once the message has ended.
-- Allowed when memory is full: a message is read before it is settled, and settling frees memory.
-- KEYS[1] ends     inbox-ends:{p}:<address>
-- KEYS[2] receipt  inbox-receipt:{p}:<address>:<id>
-- KEYS[3] push_ends  inbox-push-ends:{p}
-- KEYS[4] events   events:{p}
-- ARGV[1] address
-- ARGV[2] id       of the message
-- Returns {'marked'} | {'known'}
-- Slot    partition of the address
-- include now
-- include announce_push
local status, place, pushed = unpack(redis.call('HMGET', receipt, 'status', 'place', 'pushed'))
local expires = status == 'queued' and redis.call('ZSCORE', ends, place)
if not expires or tonumber(expires) <= now() then return {'known'} end
local read = string.sub(place, 1, -2) .. 'r'
redis.call('ZADD', ends, expires, read) -- first: in a slot that moves, a step cannot touch again what it has emptied
redis.call('ZREM', ends, place)
redis.call('HSET', receipt, 'status', 'read', 'read_at', now(), 'place', read)
redis.call('SPUBLISH', receipt, 'read')
if pushed then announce_push(events, push_ends, address, id, 'read') end
return {'marked'}
