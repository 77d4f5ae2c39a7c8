#!lua
-- Takes one place in a client's limit.
-- KEYS[1] rate    rate:{p}:<class>:<client>
-- ARGV[1] count   requests allowed in the window; 0 = no limit
-- ARGV[2] window  milliseconds
-- Returns {allowed 0|1, remaining, reset_ms}
-- Slot    partition of the client address
-- include now
-- include take
return {take(rate, count, window, now())}
