-- now() -> milliseconds since 1970 by Redis' clock, the only clock of the node; it stands still within a step.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
