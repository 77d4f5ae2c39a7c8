#!lua flags=allow-oom
-- Refunds a request in a client's limit: as it turned out, it is none that counts. Allowed without memory, which it
-- frees.
-- KEYS[1] rate    rate:{p}:<kind>:<client>
-- ARGV[1] at      when the place was taken (ms)
-- Returns {requests refunded, 0 or 1}
-- Slot    partition of the client's site, or of the entity that the limit is for
return {redis.call('LREM', rate, 1, at)}
