#!lua flags=allow-oom
-- Records whose data this Redis holds, unless that is known already, and returns what was known. Allowed when memory is
-- full: otherwise no process could start.
-- KEYS[1] identity  node:{identity}, a hash
-- ARGV[1] schema    number of the schema that the process writes
-- ARGV[2] oldest    number of the oldest schema that it can go on with
-- ARGV[3] secret    fingerprint of its secret, or empty if it has none
-- ARGV[4] version   of the process
-- Returns {schema, secret, version that was the first to write that schema} as they were, each empty if unknown. Nothing
--         is written if schema or secret is not the process' own.
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
