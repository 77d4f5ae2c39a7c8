#!lua flags=allow-oom
-- Refunds a request in a client's limit that turned out not to count. Allowed when memory is full: it frees memory.
-- KEYS[1] rate    rate:{p}:<kind>:<client>
-- ARGV[1] at      when the place was taken (ms)
-- Returns {requests refunded, 0 or 1}
-- Slot    partition of the client's site, or of the entity that the limit is for
-- include unlogged
return {unlogged('LREM', rate, 1, at)}
