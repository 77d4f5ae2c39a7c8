-- remember(idem, digest, ttl, id) -> nothing
-- Records what an Idempotency-Key created, for `ttl` milliseconds.
local function remember(idem, digest, ttl, id)
  if digest ~= '' then redis.call('SET', idem, digest .. ' ' .. id, 'PX', ttl) end
end
