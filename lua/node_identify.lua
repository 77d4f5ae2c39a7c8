#!lua flags=allow-oom
-- Records which node's data this Redis holds, unless that is already known, and returns what was known before. Allowed
-- when memory is full: otherwise no process could start.
-- KEYS[1] identity  node:{identity}, a hash
-- ARGV[1] schema    number of the schema that the process writes
-- ARGV[2] oldest    number of the oldest schema that the process can continue with
-- ARGV[3] secret    fingerprint of the process's secret, or empty if it has none
-- ARGV[4] version   of the process
-- Returns {schema, secret, first version that wrote that schema} as known before, each empty if unknown. Nothing is
--         written if the secret belongs to another node, or the process cannot continue with the schema.
-- Slot    that of the key
local known = redis.call('HMGET', identity, 'schema', 'secret', 'schema_since')
local was, whose, since = known[1] or '', known[2] or '', known[3] or ''
local is_of_another = whose ~= '' and secret ~= '' and whose ~= secret
local is_unknown = was ~= '' and (tonumber(was) > tonumber(schema) or tonumber(was) < tonumber(oldest))
if not is_of_another and not is_unknown then
  if was ~= schema then redis.call('HSET', identity, 'schema', schema, 'schema_since', version) end
  if whose == '' and secret ~= '' then redis.call('HSET', identity, 'secret', secret) end
end
return {was, whose, since}
