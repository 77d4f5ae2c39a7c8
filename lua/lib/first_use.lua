-- first_use(replay, ttl, name) -> whether the signature of a request was not used before
-- Records it for `ttl` milliseconds as used for `name`; with a `ttl` of 0 there is none to record.
local function first_use(replay, ttl, name)
  return ttl == '0' or redis.call('SET', replay, name, 'NX', 'PX', ttl)
end
