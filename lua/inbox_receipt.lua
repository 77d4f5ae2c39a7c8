#!lua flags=no-writes
-- Reads the receipt of a message. If the message is neither settled nor held, it has expired or its inbox was closed.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] receipt  inbox-receipt:{p}:<address>:<id>
-- ARGV[1...] names  of the fields wanted; none = all
-- Returns {'receipt', at, epoch of the inbox (empty = it is closed), is_held 0|1, {name, value, ...}}
--       | {'unknown', epoch}
-- Slot    partition of the address
-- include now
local epoch, opening = unpack(redis.call('HMGET', inbox, 'epoch', 'opening'))
if redis.call('EXISTS', receipt) == 0 then return {'unknown', epoch or ''} end
local fields = #ARGV == 0 and redis.call('HGETALL', receipt) or {}
for index, value in ipairs(#ARGV > 0 and redis.call('HMGET', receipt, unpack(ARGV)) or {}) do
  if value then
    table.insert(fields, ARGV[index])
    table.insert(fields, value)
  end
end
local opened, expires, settled = unpack(redis.call('HMGET', receipt, 'opening', 'expires_at', 'settled_at'))
local at = now()
local is_held = not settled and opened == opening and tonumber(expires) > at
return {'receipt', at, epoch or '', is_held and 1 or 0, fields}
