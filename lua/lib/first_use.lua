-- first_use(replay, ttl, name) -> whether the signature of a request was not used before
-- Records the signature for `ttl` milliseconds as used for `name`. A `ttl` of 0 means that the request is not signed.
local function first_use(replay, ttl, name)
  return ttl == '0' or redis.call('SET', replay, name, 'NX', 'PX', ttl)
end
