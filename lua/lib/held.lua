-- held(ends, at) -> {{seq, id, size, sender, is_new, place}, ...}
-- The unsettled messages of an inbox that have not expired at the time `at` (ms), in no order. Their number is bounded
-- (`inbox_send`), and so is the time that this takes: some 0.3 ms. Reads that are not limited use `weigh`, which takes a
-- quarter of that.
local function held(ends, at)
  local messages = {}
  for _, place in ipairs(redis.call('ZRANGEBYSCORE', ends, '(' .. at, '+inf')) do
    local seq, id, size, sender, flag = string.match(place, '^(%d+) (%S+) (%d+) (%S+) (%S)$')
    table.insert(messages, {
      seq = tonumber(seq), id = id, size = tonumber(size), sender = sender, is_new = flag == 'q', place = place,
    })
  end
  return messages
end
