-- stay(inbox, last_seq, life, kept, step, at) -> ends_at, client, place, until
-- Lets an inbox live for `life` ms from the time `at`, when its owner was here. The counter of its messages stays `kept`
-- ms longer, so that an inbox opened anew at the same address goes on counting. Its place in the client's quota, if it
-- has one that would end before the inbox, must last `step` ms longer than the inbox: so it never ends first, and need
-- not be prolonged each time. An empty place: nothing to do.
local function stay(inbox, last_seq, life, kept, step, at)
  local ends_at = at + life
  redis.call('HSET', inbox, 'seen', at, 'ends_at', ends_at)
  redis.call('PEXPIREAT', inbox, ends_at)
  redis.call('PEXPIREAT', last_seq, ends_at + kept)
  local client, place, until_now = unpack(redis.call('HMGET', inbox, 'client', 'held', 'held_until'))
  if not place or ends_at <= tonumber(until_now) then return ends_at, '', '', 0 end
  redis.call('HSET', inbox, 'held_until', ends_at + step)
  return ends_at, client, place, ends_at + step
end
