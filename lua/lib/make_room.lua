-- make_room(messages, ends, at, size, sender, most, most_bytes, most_each) -> nil (there is room) | expires
-- Drops the messages of an inbox that have expired at the time `at` (ms), and checks whether the inbox may hold another
-- message of `size` bytes. If not, returns when the next message expires that could make room: one of the sender's own
-- if the sender has `most_each` messages. The work is bounded by `most`, because every held message has passed this
-- check.
local function make_room(messages, ends, at, size, sender, most, most_bytes, most_each)
  local expired = redis.call('ZRANGEBYSCORE', ends, '-inf', at)
  for _, place in ipairs(expired) do
    redis.call('XDEL', messages, '0-' .. string.match(place, '^%d+'))
  end
  if #expired > 0 then redis.call('ZREMRANGEBYSCORE', ends, '-inf', at) end

  local places = redis.call('ZRANGE', ends, 0, -1) -- the first to expire first
  local bytes, own, first_own = size, 0, nil
  for _, place in ipairs(places) do
    local its_size, its_sender = string.match(place, '^%d+ %S+ (%d+) (%S+)')
    bytes = bytes + its_size
    if its_sender == sender then own, first_own = own + 1, first_own or place end
  end
  local first
  if own >= tonumber(most_each) then
    first = first_own
  elseif #places >= tonumber(most) or bytes > tonumber(most_bytes) then
    first = places[1]
  end
  return first and tonumber(redis.call('ZSCORE', ends, first))
end
