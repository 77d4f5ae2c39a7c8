-- stay(inbox, last_seq, life, kept, step, at) -> ends_at, client, place, until
-- Lets an inbox live for `life` ms from the time `at` on, at which its owner was here. The counter of its messages stays
-- for `kept` ms longer, so that an inbox that is opened anew at the same address goes on counting. Its place in the quota
-- of the client, if it has one and that would end before it, is to last for `step` ms longer: not prolonged each time, and
-- never over while the inbox is there. An empty place: nothing is to be done.
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
