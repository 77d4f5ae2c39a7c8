-- held(ends, at) -> {{seq, id}, ...}
-- The unsettled messages of an inbox that have not expired at the time `at` (ms), the first to expire first. Their
-- number is bounded (`make_room`).
local function held(ends, at)
  local messages = {}
  for _, place in ipairs(redis.call('ZRANGEBYSCORE', ends, '(' .. at, '+inf')) do
    local seq, id = string.match(place, '^(%d+) (%S+)')
    table.insert(messages, {seq = tonumber(seq), id = id})
  end
  return messages
end
