-- prolong(inbox, last_seq, life, kept, step, at, lasts) -> ends_at, client, place, until
-- Prolongs an inbox until `life` ms after `at`, when its owner was there, but not beyond the end of its place in its
-- client's quota, if it has one. The place is in another partition, so only the caller can prolong it. If the place
-- ends too early, the result names the place and the time `until` which the caller must prolong it before running the
-- step again. That time is `step` ms later than the inbox may live, so that this is rarely needed. Otherwise `place` is
-- empty, and nothing is to be done.
-- `lasts` (ms): the end of the place if the caller has just prolonged it; 0 = it has not.
-- The counter of the inbox's messages outlives the inbox by `kept` ms, so that an inbox opened again at the same
-- address continues the numbers.
local function prolong(inbox, last_seq, life, kept, step, at, lasts)
  local client, place, known = unpack(redis.call('HMGET', inbox, 'client', 'held', 'held_until'))
  local wanted = at + life
  local ends_at = wanted
  if place then
    local held_until = math.max(tonumber(known), tonumber(lasts))
    redis.call('HSET', inbox, 'held_until', held_until)
    ends_at = math.min(wanted, held_until)
  end
  redis.call('HSET', inbox, 'seen', at, 'ends_at', ends_at)
  redis.call('PEXPIREAT', inbox, ends_at)
  redis.call('PEXPIREAT', last_seq, ends_at + kept)
  if ends_at == wanted then return ends_at, '', '', 0 end
  return ends_at, client, place, wanted + step
end
