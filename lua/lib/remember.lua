-- remember(idem, digest, ttl, id) -> nothing
-- Records what a request with an Idempotency-Key created, for `ttl` milliseconds. Nothing if it has none (`once`).
local function remember(idem, digest, ttl, id)
  if digest ~= '' then redis.call('SET', idem, digest .. ' ' .. id, 'PX', ttl) end
end
