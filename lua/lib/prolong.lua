-- prolong(inbox, last_seq, life, kept, step, at, lasts) -> ends_at, client, place, until
-- Lets an inbox live for `life` ms from the time `at`, when its owner was there, but no longer than its place in the
-- client's quota, if it has one. `lasts` (ms) is until when that place was just prolonged; 0 = it was not, and lasts as
-- long as was known before. If the place ends first, the result names it, and the time `until` which the caller has to
-- prolong it before it runs the step again: `step` ms longer than the inbox lives, so that this is not needed each
-- time. An empty place: nothing to do. The counter of the inbox's messages stays `kept` ms longer, so that an inbox
-- opened anew at the same address goes on counting.
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
