-- count_artifact(sums, client, site, size, number, reserved) -> nothing
-- Adds bytes, number of artifacts and reserved bytes to the sums of a client, and to those of its IPv6 /48 if any.
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
