#!lua
-- Ends a session and forgets its lines. Whether the caller may is settled before.
-- KEYS[1] session  session:{p}:<id>
-- KEYS[2] lines    lines:{p}:<id>
-- Returns {'destroyed', client, held}: whom it counted for, empty for nobody | {'gone'}
-- Slot    partition of the session's id
local client, held = unpack(redis.call('HMGET', session, 'client', 'held'))
if redis.call('UNLINK', session, lines) == 0 then return {'gone'} end
redis.call('SPUBLISH', session, 'destroyed')
return {'destroyed', client or '', held or ''}
