-- stay(inbox, last_seq, life, kept, at) -> ends_at
-- Lets an inbox live for `life` ms from the time `at` on, at which its owner was here. The counter of its messages stays
-- for `kept` ms longer, so that an inbox that is opened anew at the same address goes on counting.
local function stay(inbox, last_seq, life, kept, at)
  local ends_at = at + life
  redis.call('HSET', inbox, 'seen', at, 'ends_at', ends_at)
  redis.call('PEXPIREAT', inbox, ends_at)
  redis.call('PEXPIREAT', last_seq, ends_at + kept)
  return ends_at
end
