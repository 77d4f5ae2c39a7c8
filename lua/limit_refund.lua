#!lua flags=allow-oom
-- Refunds a request in a client's limit, and in that of its site, that turned out not to count. Allowed when memory is
-- full: it frees memory.
-- KEYS[1] rate    rate:{p}:<kind>:<client>
-- KEYS[2] site    rate:{p}:<kind>:<site of the client>; the same as rate if the site has no limit of its own
-- ARGV[1] at      when the place was taken (ms)
-- Returns {requests refunded to the client, 0 or 1}
-- Slot    partition of the client's site, or of the entity that the limit is for
-- include unlogged
if site ~= rate then unlogged('LREM', site, 1, at) end
return {unlogged('LREM', rate, 1, at)}
