#!lua flags=no-writes
-- Reads unsettled messages after a number, for the owner.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] last_seq  inbox-seq:{p}:<address>
-- KEYS[3] messages  inbox-letters:{p}:<address>
-- KEYS[4] ends     inbox-ends:{p}:<address>
-- ARGV[1] proof    the epoch of the token shown; * = the key of the address has signed
-- ARGV[2] since    number already seen
-- ARGV[3] limit    messages at most
-- Returns {'page', now, epoch, seen_at, number of the last message, waiting, bytes, time of the oldest (0 = none),
--          {{is_new 0|1, entry id, {name, value, ...}}, ...}} | {'gone'} | {'token'}
-- Slot    partition of the address
-- include now
-- include measure_held
local epoch, seen = unpack(redis.call('HMGET', inbox, 'epoch', 'seen'))
if not epoch then return {'gone'} end
if proof ~= '*' and proof ~= epoch then return {'token'} end

local at = now()
local waiting, bytes, first, new = measure_held(ends, at)
local after, most, found = tonumber(since), tonumber(limit), {}
while waiting > 0 and #found < most do
  local entries = redis.call('XRANGE', messages, string.format('0-%.0f', after + 1), '+', 'COUNT', most)
  for _, entry in ipairs(entries) do
    local name, fields = unpack(entry)
    after = tonumber(string.sub(name, 3))
    if tonumber(fields[6]) > at and #found < most then
      table.insert(found, {new[after] and 1 or 0, name, fields}) -- what has expired is still in the stream
    end
  end
  if #entries < most then break end
end
local oldest = first and redis.call('XRANGE', messages, '0-' .. first, '0-' .. first)[1][2][4] or 0
local last = tonumber(redis.call('GET', last_seq) or 0)
return {'page', at, epoch, tonumber(seen), last, waiting, bytes, tonumber(oldest), found}
