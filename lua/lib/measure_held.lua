-- measure_held(ends, at) -> waiting, bytes, first, new
-- How many unsettled messages of an inbox have not expired at the time `at` (ms), their bytes, the number of the oldest
-- (nil = none), and, by number, which of them are unread. Callers are neither limited nor charged for this, so it
-- parses no more of a place than it must.
local function measure_held(ends, at)
  local bytes, first, new = 0, nil, {}
  local places = redis.call('ZRANGEBYSCORE', ends, '(' .. at, '+inf')
  for _, place in ipairs(places) do
    local number, size = string.match(place, '^(%d+) %S+ (%d+)')
    local seq = tonumber(number)
    bytes = bytes + size
    if not first or seq < first then first = seq end
    if string.sub(place, -1) == 'q' then new[seq] = true end
  end
  return #places, bytes, first, new
end
