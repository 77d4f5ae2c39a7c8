-- measure_held(ends, at) -> waiting, bytes, first, new
-- Measures the unsettled messages of an inbox that have not expired at the time `at` (ms): how many there are, their
-- bytes, the number of the oldest (nil = none), and the set of numbers of the unread ones. Callers are neither limited
-- nor charged for this, so it parses no more of a place than necessary.
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
