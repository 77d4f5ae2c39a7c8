-- remember(idem, digest, ttl, id) -> nothing
-- Records for `ttl` milliseconds what a request with an Idempotency-Key created (`once`). Without a key, does nothing.
local function remember(idem, digest, ttl, id)
  if digest ~= '' then redis.call('SET', idem, digest .. ' ' .. id, 'PX', ttl) end
end
