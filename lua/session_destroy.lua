#!lua flags=allow-oom
-- Removes a session with its lines. The caller has checked the right to do so. Allowed when memory is full: it frees
-- memory.
-- KEYS[1] session  session:{p}:<id>
-- KEYS[2] lines    lines:{p}:<id>
-- Returns {'destroyed', client, place}: the client and the session's place in its quota (empty = not counted)
--       | {'gone'}
-- Slot    partition of the session's id
local client, place = unpack(redis.call('HMGET', session, 'client', 'held'))
if redis.call('UNLINK', session, lines) == 0 then return {'gone'} end
redis.call('SPUBLISH', session, 'destroyed')
return {'destroyed', client or '', place or ''}
