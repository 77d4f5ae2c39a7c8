#!lua flags=no-writes
-- Reads the receipt of a message. What is neither settled nor held any more has expired, or its inbox was closed.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] receipt  inbox-receipt:{p}:<address>:<id>
-- Returns {'receipt', now, epoch of the inbox (empty = it is closed), is_held 0|1, {name, value, ...}}
--       | {'unknown', epoch}
-- Slot    partition of the address
-- include now
local epoch, opening = unpack(redis.call('HMGET', inbox, 'epoch', 'opening'))
local fields = redis.call('HGETALL', receipt)
if #fields == 0 then return {'unknown', epoch or ''} end
local opened, expires, settled = unpack(redis.call('HMGET', receipt, 'opening', 'expires_at', 'settled_at'))
local at = now()
local is_held = not settled and opened == opening and tonumber(expires) > at
return {'receipt', at, epoch or '', is_held and 1 or 0, fields}
