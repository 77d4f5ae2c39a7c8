#!lua
-- Registers one artifact, once for each Idempotency-Key: counts the request and the bytes that it reserves, and keeps
-- the manifest. Reserved bytes, which are not uploaded yet, may be only a share of the free bytes, so that the
-- reservations of one site never take what others need.
-- KEYS[1] rate      rate:{p}:artifact:<client>
-- KEYS[2] idem      idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[3] artifact  artifact:{p}:<id>
-- KEYS[4] due       artifacts:{p}
-- KEYS[5] sums      artifact-bytes:{p}
-- ARGV[1] count     the limit
-- ARGV[2] seconds   its window
-- ARGV[3] digest    of the body, under its Idempotency-Key; empty = none
-- ARGV[4] idem_ttl  milliseconds
-- ARGV[5] artifact_id
-- ARGV[6] client    its address
-- ARGV[7] site      the IPv6 /48 that the address is in; empty = none
-- ARGV[8] size      bytes
-- ARGV[9] weight    bytes that the artifact reserves until it is uploaded
-- ARGV[10] client_bytes   that one client may hold
-- ARGV[11] client_number  artifacts that one client may hold; 0 = any number
-- ARGV[12] client_share   percent of the free bytes that one client may have reserved
-- ARGV[13] site_times  how many times as many bytes and artifacts a site may hold
-- ARGV[14] site_share  percent of the free bytes that a site may have reserved
-- ARGV[15] always   bytes that a client, and a site, may have reserved however few bytes are free
-- ARGV[16] capacity  bytes that the partition may hold: those of the node minus those of the other partitions
-- ARGV[17] free     bytes that the blob store can still take; -1 = unknown
-- ARGV[18] life     milliseconds until an artifact that is not completed is removed
-- ARGV[19...] fields  name, value, ...
-- Returns {'registered', allowed, remaining, reset_ms, now, {name, value, ...}} | {'replayed', …, id}
--       | {'limited'|'conflict'|'full'|'reserved', …} | {'quota', …, bytes held, artifacts held}
-- Slot    partition of the client's site
-- include now
-- include take
-- include once
-- include remember
-- include count_artifact
local at = now()
local allowed, remaining, reset = take(rate, count, seconds, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end

local before, original = once(idem, digest)
if before then return {before, allowed, remaining, reset, original} end

local left = capacity - (redis.call('HGET', sums, 'all') or 0) - size
if left < 0 or (free ~= '-1' and tonumber(size) > tonumber(free)) then return {'full', allowed, remaining, reset} end

local owners = {{client, 1, client_share}, site ~= '' and {site, site_times, site_share} or nil}
for _, each in ipairs(owners) do
  local owner, times, share = unpack(each)
  local held, number, reserved = unpack(redis.call('HMGET', sums, owner, 'number:' .. owner, 'reserved:' .. owner))
  held, number = tonumber(held or 0), tonumber(number or 0)
  if held + size > client_bytes * times or (client_number ~= '0' and number >= client_number * times) then
    return {'quota', allowed, remaining, reset, held, number}
  end
  if (reserved or 0) + weight > math.max(always, left * share / 100) then
    return {'reserved', allowed, remaining, reset}
  end
end

local ends = at + life
redis.call('HSET', artifact, 'status', 'registered', 'attempt', 0, 'created_at', at, 'expires_at', ends,
  'upload_until', ends, 'client', client, 'site', site, 'byte_size', size, 'reserved', weight, unpack(ARGV, 19))
redis.call('ZADD', due, ends, artifact_id)
redis.call('HINCRBY', sums, 'all', size)
count_artifact(sums, client, site, size, 1, weight)
remember(idem, digest, idem_ttl, artifact_id)
return {'registered', allowed, remaining, reset, at, redis.call('HGETALL', artifact)}
