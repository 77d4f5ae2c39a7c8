-- count_artifact(sums, client, site, size, number, reserved) -> nothing
-- Adds to the sums of a client, and of its IPv6 /48 if it is in one: bytes, artifacts, and bytes not uploaded yet.
local function count_artifact(sums, client, site, size, number, reserved)
  local function add(field, change)
    if change ~= 0 and redis.call('HINCRBY', sums, field, change) <= 0 then redis.call('HDEL', sums, field) end
  end
  for _, owner in ipairs({client, site and site ~= '' and site or nil}) do
    add(owner, size)
    add('number:' .. owner, number)
    add('reserved:' .. owner, reserved)
  end
end
