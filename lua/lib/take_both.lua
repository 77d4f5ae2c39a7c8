-- take_both(key, site, count, site_count, seconds, now) -> allowed (0|1), remaining, reset_ms
-- Takes one place in the limit of a client and one in the limit of its site, or neither. `site` is the same key as
-- `key` if the client is its own site.
-- include take
-- include unlogged
local function take_both(key, site, count, site_count, seconds, now)
  local allowed, remaining, reset = take(key, count, seconds, now)
  if allowed == 0 or site == key then return allowed, remaining, reset end
  local whole, left, opens = take(site, site_count, seconds, now)
  if whole == 1 then return 1, math.min(remaining, left), reset end
  unlogged('LPOP', key)
  return 0, 0, opens
end
