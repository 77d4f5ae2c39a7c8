#!lua
-- Says how an attempt ended: over, or once more. A callback that has got something newer to tell since it
-- was taken is sent again in any case.
-- KEYS[1] callback  callback:{p}:<name>
-- KEYS[2] due       callbacks:{p}
-- KEYS[3] dead      callbacks-dead:{p}
-- ARGV[1] name
-- ARGV[2] id        webhook-id of the attempt
-- ARGV[3] ending    delivered | dropped | dead | retry | postpone: not tried, so not counted
-- ARGV[4] pause     milliseconds: until the next attempt, or the next message of this name
-- ARGV[5] reason    of a failure, for the operator
-- ARGV[6] keep      dead letters of the partition that are kept
-- Returns {'over'|'again'}
-- Slot    the partition of the entity
-- include now
local at = now()
local current, attempt, url, type, data, happened =
  unpack(redis.call('HMGET', callback, 'id', 'attempt', 'url', 'type', 'data', 'at'))
if not current then
  redis.call('ZREM', due, name)
  return {'over'}
end
if ending == 'postpone' then
  redis.call('ZADD', due, at + pause, name)
  return {'again'}
end
if ending == 'retry' then
  redis.call('HSET', callback, 'attempt', attempt + 1, 'reason', reason)
  redis.call('ZADD', due, at + pause, name)
  return {'again'}
end
if ending == 'dead' then
  redis.call('XADD', dead, 'MAXLEN', '~', keep, '*', 'name', name, 'id', current, 'url', url, 'type', type,
    'data', data, 'at', happened, 'attempts', attempt + 1, 'reason', reason)
end
if ending == 'delivered' and current ~= id then
  redis.call('HSET', callback, 'attempt', 0, 'sent_at', at)
  redis.call('ZADD', due, at + pause, name)
  return {'again'}
end
redis.call('ZREM', due, name)
if ending == 'delivered' then
  -- Remembered until the pause is over, so that the next event of this name waits for it.
  redis.call('HDEL', callback, 'attempt')
  redis.call('HSET', callback, 'sent_at', at)
  redis.call('PEXPIRE', callback, math.max(pause, 1))
else
  redis.call('UNLINK', callback)
end
return {'over'}
