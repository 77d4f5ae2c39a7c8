-- once(idem, digest) -> nil (new) | 'replayed', id | 'conflict' (the same key with another body)
-- Finds what an earlier request with the same Idempotency-Key created. The record has the digest of the body, and the
-- id. An empty digest means that the request has no key.
local function once(idem, digest)
  if digest == '' then return nil end
  local record = redis.call('GET', idem)
  if not record then return nil end
  local known, id = string.match(record, '^(%S+) (%S+)$')
  if known ~= digest then return 'conflict' end
  return 'replayed', id
end
