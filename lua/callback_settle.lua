#!lua flags=allow-oom
-- Says how an attempt ended: over, or once more. A callback that has got something newer to tell since it
-- was taken is sent again once this is delivered; dropped or dead, it ends with all that it had to tell, and a
-- dead letter holds the newest. Safe to repeat, and when memory is full: what was delivered and cannot be
-- settled would be sent again and again.
-- KEYS[1] callback  callback:{p}:<name>
-- KEYS[2] due       callbacks:{p}
-- KEYS[3] dead      callbacks-dead:{p}
-- ARGV[1] name
-- ARGV[2] id        webhook-id of the attempt
-- ARGV[3] attempt   made before this one
-- ARGV[4] ending    delivered | dropped | dead | retry | postpone: not tried, so not counted
-- ARGV[5] pause     milliseconds: until the next attempt, or the next message of this name
-- ARGV[6] reason    of a failure, for the operator
-- ARGV[7] misses    how often the receiver was not found, this attempt included
-- ARGV[8] keep      dead letters of the partition that are kept
-- ARGV[9] remember  milliseconds for which a delivered message is known as such
-- Returns {'over'|'again'}
-- Slot    the partition of the entity
-- include now
local at = now()
local current, counted, url, type, data, happened =
  unpack(redis.call('HMGET', callback, 'id', 'attempt', 'url', 'type', 'data', 'at'))
if not counted then -- nothing is under way: another worker took it over, or an operator removed it
  redis.call('ZREM', due, name)
  return {'over'}
end
if ending == 'postpone' then
  redis.call('ZADD', due, at + pause, name)
  return {'again'}
end
if ending == 'retry' then
  if tonumber(counted) == tonumber(attempt) then
    redis.call('HSET', callback, 'attempt', counted + 1, 'reason', reason, 'misses', misses)
    redis.call('ZADD', due, at + pause, name)
  end
  return {'again'}
end
if ending == 'dead' then
  redis.call('XADD', dead, 'MAXLEN', '~', keep, '*', 'name', name, 'id', current, 'url', url, 'type', type,
    'data', data, 'at', happened, 'attempts', counted + 1, 'reason', reason)
end
if ending == 'delivered' and current ~= id then
  redis.call('HSET', callback, 'attempt', 0, 'misses', 0, 'since', at, 'sent_at', at)
  redis.call('ZADD', due, at + pause, name)
  return {'again'}
end
redis.call('ZREM', due, name)
if ending == 'delivered' then
  -- Remembered, so that the next event of this name keeps its distance and this one is not told again.
  redis.call('HDEL', callback, 'attempt', 'misses', 'since', 'reason', 'url', 'type', 'data')
  redis.call('HSET', callback, 'sent_at', at)
  redis.call('PEXPIRE', callback, remember)
else
  redis.call('UNLINK', callback)
end
return {'over'}
