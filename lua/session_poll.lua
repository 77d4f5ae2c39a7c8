#!lua flags=no-writes
-- Reads the lines of a live session after a sequence number.
-- KEYS[1] session  session:{p}:<id>
-- KEYS[2] lines    lines:{p}:<id>
-- ARGV[1] since    sequence number already seen
-- ARGV[2] limit    lines at most
-- Returns {'lines', expires_at, milliseconds left, epoch, label, last_seq, {{entry id, {name, value, ...}}, ...}}
--       | {'gone'}
-- Slot    partition of the session's id
local expires, epoch, label = unpack(redis.call('HMGET', session, 'expires_at', 'epoch', 'label'))
if not expires then return {'gone'} end
local found = redis.call('XRANGE', lines, '(0-' .. since, '+', 'COUNT', limit)
local left = redis.call('PTTL', session)  -- milliseconds
return {'lines', tonumber(expires), left, epoch, label or '', redis.call('XLEN', lines), found}
