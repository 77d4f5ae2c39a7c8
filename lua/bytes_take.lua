#!lua
-- Counts the bytes of one large body, if the client has so many left. The count begins anew when its time is over.
-- KEYS[1] bytes  bytes:{p}:<client>
-- ARGV[1] size   bytes
-- ARGV[2] most   bytes in that time
-- ARGV[3] window  its milliseconds
-- Returns {'counted'} | {'over', wait_ms}
-- Slot    partition of the client address
local used = tonumber(redis.call('GET', bytes) or 0)
if used + size > tonumber(most) then return {'over', math.max(redis.call('PTTL', bytes), 0)} end
redis.call('INCRBY', bytes, size)
if used == 0 then redis.call('PEXPIRE', bytes, window) end
return {'counted'}
