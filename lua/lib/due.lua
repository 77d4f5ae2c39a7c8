-- due(leases, id, ...) -> nothing
-- Plans when a contract changes by itself: at the earliest of the times given (ms; false = none of that kind), or never.
local function due(leases, id, ...)
  local first
  for index = 1, select('#', ...) do
    local given = select(index, ...)
    local at = given and tonumber(given)
    if at and (not first or at < first) then first = at end
  end
  if first then redis.call('ZADD', leases, first, id) else redis.call('ZREM', leases, id) end
end
