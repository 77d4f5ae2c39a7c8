-- prolong(inbox, last_seq, life, kept, step, at, lasts) -> ends_at, client, place, until
-- Lets an inbox live until `life` ms after `at`, when its owner was there, but no longer than its place in its client's
-- quota, if it has one. That place is in another partition, so only the caller can prolong it. If it ends first, the
-- result says which place it is, and to which time (`until`) the caller is to prolong it, and then run the step again:
-- `step` ms longer than the inbox may live, so that this is seldom needed. Else `place` is empty, and nothing is to do.
-- `lasts` (ms): until when the caller has just prolonged the place; 0 = it has not.
-- The counter of the inbox's messages stays `kept` ms longer, so that an inbox opened anew at the same address goes on
-- counting.
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
