#!lua flags=no-writes
-- Reads the lines of a live session after a sequence number.
-- KEYS[1] session  session:{p}:<id>
-- KEYS[2] lines    lines:{p}:<id>
-- ARGV[1] since    sequence number already seen
-- ARGV[2] limit    lines at most
-- Returns {'lines', expires_at, epoch, label, last, {{entry id, {name, value, ...}}, ...}} | {'gone'}
-- Slot    partition of the session's id
local expires, epoch, label = unpack(redis.call('HMGET', session, 'expires_at', 'epoch', 'label'))
if not expires then return {'gone'} end
local found = redis.call('XRANGE', lines, '(0-' .. since, '+', 'COUNT', limit)
local newest = redis.call('XREVRANGE', lines, '+', '-', 'COUNT', 1)[1]
local last = newest and tonumber(string.sub(newest[1], 3)) or 0
return {'lines', tonumber(expires), epoch, label or '', last, found}
