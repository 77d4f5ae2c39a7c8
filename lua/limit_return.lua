#!lua flags=allow-oom
-- Gives back a place in a client's limit: the request, as it turned out, is none that counts. Allowed without memory,
-- which it frees.
-- KEYS[1] rate    rate:{p}:<kind>:<client>
-- ARGV[1] at      when the place was taken (ms)
-- Returns {places returned, 0 or 1}
-- Slot    partition of the client's site, or of the entity that the limit is for
return {redis.call('LREM', rate, 1, at)}
