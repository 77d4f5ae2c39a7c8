#!lua flags=no-writes
-- Reads unsettled messages after a number, for the owner.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] numbers  inbox-seq:{p}:<address>
-- KEYS[3] letters  inbox-letters:{p}:<address>
-- KEYS[4] ends     inbox-ends:{p}:<address>
-- ARGV[1] proof    the epoch of the token shown; * = the key of the address has signed
-- ARGV[2] since    number already seen
-- ARGV[3] limit    messages at most
-- Returns {'page', now, epoch, seen_at, number of the last message, waiting, bytes, time of the oldest (0 = none),
--          {{is_new 0|1, entry id, {name, value, ...}}, ...}} | {'gone'} | {'token'}
-- Slot    partition of the address
-- include now
-- include held
local epoch, seen = unpack(redis.call('HMGET', inbox, 'epoch', 'seen'))
if not epoch then return {'gone'} end
if proof ~= '*' and proof ~= epoch then return {'token'} end
local function entry(seq) return redis.call('XRANGE', letters, '0-' .. seq, '0-' .. seq)[1] end

local at, bytes, found = now(), 0, {}
local messages = held(ends, at)
for _, message in ipairs(messages) do
  bytes = bytes + message.size
  if message.seq > tonumber(since) and #found < tonumber(limit) then
    local name, fields = unpack(entry(message.seq))
    table.insert(found, {message.is_new and 1 or 0, name, fields})
  end
end
local oldest = messages[1] and tonumber(entry(messages[1].seq)[2][4]) or 0
local last = tonumber(redis.call('GET', numbers) or 0)
return {'page', at, epoch, tonumber(seen), last, #messages, bytes, oldest, found}
