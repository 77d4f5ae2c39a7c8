#!lua
-- Takes one place in the limit that a client has for one entity, such as replies to a thread. If the entity does not
-- exist, nothing is kept, because a client could make up any number of ids.
-- KEYS[1] entity  thread:{p}:<id> | session:{p}:<id>
-- KEYS[2] rate    rate:{p}:<kind>:<id>:<client>
-- ARGV[1] count   requests allowed in the window
-- ARGV[2] seconds  the window
-- Returns {allowed 0|1, remaining, reset_ms}: reset_ms until the next place is free | {}: no such entity
-- Slot    partition of the entity
-- include now
-- include take
if redis.call('EXISTS', entity) == 0 then return {} end
return {take(rate, count, seconds, now())}
