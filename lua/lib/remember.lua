-- remember(idem, digest, ttl, id) -> nothing
-- Records for `ttl` milliseconds what a request with an Idempotency-Key created; without a key it does nothing (`once`).
local function remember(idem, digest, ttl, id)
  if digest ~= '' then redis.call('SET', idem, digest .. ' ' .. id, 'PX', ttl) end
end
