-- now() -> milliseconds since 1970
-- Reads the clock of Redis, the only clock of the node. It stands still within a step.
local function now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
