-- enlist(agent, listed, due, id, at, life, spare) -> ends_at
-- Puts the entry of an agent into the directory, or renews it, from the time `at` (ms) for `life` ms. Redis drops it
-- `spare` ms later if no worker has removed it. A probe is due at once. If the entry was not shown before, the results
-- of earlier probes are deleted.
local function enlist(agent, listed, due, id, at, life, spare)
  local ends_at = at + life
  redis.call('HSETNX', agent, 'listed_at', at)
  if redis.call('HEXISTS', agent, 'shown') == 0 then redis.call('HDEL', agent, 'liveness', 'doubt', 'since') end
  redis.call('HSET', agent, 'status', 'listed', 'shown', 1, 'ends_at', ends_at)
  redis.call('PEXPIREAT', agent, ends_at + spare)
  redis.call('ZADD', listed, ends_at, id)
  redis.call('PEXPIREAT', listed, ends_at)
  redis.call('ZADD', due, at, id)
  return ends_at
end
