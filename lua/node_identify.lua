#!lua flags=allow-oom
-- Records whose data this Redis holds, unless that is known already, and returns what was known. Allowed without memory:
-- otherwise no process could start.
-- KEYS[1] identity  node:{identity}, a hash
-- ARGV[1] schema    number of the schema that the process writes
-- ARGV[2] oldest    number of the oldest schema that it can go on with
-- ARGV[3] secret    fingerprint of its secret, or empty if it has none
-- ARGV[4] version   of the process
-- Returns {schema, secret} as they were, each empty if unknown. Nothing is written if either is not the process' own.
-- Slot    that of the key
-- include now
local known = redis.call('HMGET', identity, 'schema', 'secret')
local was, whose = known[1] or '', known[2] or ''
if whose ~= '' and secret ~= '' and whose ~= secret then
  return {was, whose}
end
if was ~= '' and (tonumber(was) > tonumber(schema) or tonumber(was) < tonumber(oldest)) then
  return {was, whose}
end
if was ~= schema then
  redis.call('HSET', identity, 'schema', schema, 'schema_since', version, 'schema_at', now())
end
if whose == '' and secret ~= '' then
  redis.call('HSET', identity, 'secret', secret)
end
return {was, whose}
