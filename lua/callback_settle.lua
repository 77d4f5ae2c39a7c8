#!lua flags=allow-oom
-- Records how an attempt ended: the callback is over, or due again. If a newer event has replaced the message since the
-- message was taken, that event is due, starting with its first attempt, even if the message was given up. Safe to
-- repeat. Allowed when memory is full: a delivered message that could not be settled would be sent again and again.
-- KEYS[1] callback  callback:{p}:<name>
-- KEYS[2] due       callbacks:{p}, names by the time (ms) of their next attempt
-- KEYS[3] dead      callbacks-dead:{p}
-- KEYS[4] record    callback-record:{p}:<entity>, for the owner of the entity
-- KEYS[5] of_site   callbacks-dead-of:{p}:<site of the publisher>; the site is empty without a publisher
-- ARGV[1] name      of the callback
-- ARGV[2] id        webhook-id of the message that was sent
-- ARGV[3] attempt   attempts that had been made before this one
-- ARGV[4] ending    delivered | dropped | dead | retry | postpone (no attempt was made, so none is counted)
-- ARGV[5] pause     milliseconds until the next attempt, or until the next message of this name
-- ARGV[6] reason    of a failure or of a postponement, for the operator and the owner
-- ARGV[7] misses    attempts that were answered 404, this one included
-- ARGV[8] keep      approximate number of dead letters to keep in the partition
-- ARGV[9] keep_of_site  number of dead letters to keep for one site
-- ARGV[10] remember milliseconds for which a delivered message is remembered as delivered
-- ARGV[11] about    `<happened> <type> <host>` of the message that was sent, for the record
-- ARGV[12] told     for a reply, its number, from which the next message of this name continues; else empty
-- Returns {'over'|'again'}
-- Slot    the partition of the entity
-- include note_callback
-- include now
local KEPT = 30 * 86400000 -- milliseconds
local at = now()
local current, counted, url, type, data, happened, last, untold =
  unpack(redis.call('HMGET', callback, 'id', 'attempt', 'url', 'type', 'data', 'at', 'reason', 'after'))
if not counted then return {'over'} end -- another worker, which had also taken it, has settled it
if ending == 'postpone' then
  redis.call('HINCRBY', callback, 'waited', pause)
  redis.call('ZADD', due, at + pause, name)
  note_callback(record, current, 'pending', tonumber(counted), at + pause, last or reason)
  return {'again'}
end
if ending == 'retry' then
  if tonumber(counted) == tonumber(attempt) then
    redis.call('HSET', callback, 'attempt', counted + 1, 'reason', reason, 'misses', misses)
    redis.call('ZADD', due, at + pause, name)
    note_callback(record, current, 'pending', counted + 1, at + pause, reason)
  end
  return {'again'}
end
local function begin_again(due_at) -- with the newer event
  redis.call('HSET', callback, 'attempt', 0, 'misses', 0, 'waited', 0, 'since', at)
  redis.call('HDEL', callback, 'reason')
  redis.call('ZADD', due, due_at, name)
  note_callback(record, current, 'pending', 0, due_at, '')
end
if ending ~= 'delivered' and current ~= id then
  if tonumber(counted) == tonumber(attempt) then begin_again(at) end -- otherwise another worker is ahead of it
  return {'again'}
end
if ending == 'delivered' then
  note_callback(record, id, 'delivered', counted + 1, at, '', about)
  redis.call('HSET', callback, 'sent_at', at)
  if told ~= '' then redis.call('HSET', callback, 'after', told) end
  if current ~= id then
    begin_again(at + pause)
    return {'again'}
  end
  -- Remembered, so that the next message of this name comes after a pause, and this one is not sent again.
  redis.call('HDEL', callback, 'attempt', 'misses', 'waited', 'since', 'reason', 'url', 'type', 'data')
  redis.call('PEXPIRE', callback, remember)
else
  if ending == 'dead' then
    local entry = redis.call('XADD', dead, 'MAXLEN', '~', keep, '*', 'name', name, 'id', current, 'url', url, 'type',
      type, 'data', data, 'at', happened, 'attempts', counted + 1, 'reason', reason, 'after', untold or '')
    local number = redis.call('RPUSH', of_site, entry)
    redis.call('PEXPIRE', of_site, KEPT)
    if number > tonumber(keep_of_site) then redis.call('XDEL', dead, redis.call('LPOP', of_site)) end
  end
  note_callback(record, current, ending, counted + 1, at, reason)
  redis.call('UNLINK', callback)
end
redis.call('ZREM', due, name)
return {'over'}
