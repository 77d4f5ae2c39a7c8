#!lua flags=allow-oom
-- Announces messages that have expired or lost their inbox, if they are in tasks that push notifications follow.
-- Allowed when memory is full: an event takes no more memory than the entry that it replaces, and is trimmed.
-- KEYS[1] push_ends  inbox-push-ends:{p}
-- KEYS[2] events  events:{p}
-- ARGV[1] limit   messages at most
-- Returns {'told', how many}
-- Slot    the partition
-- include now
-- include announce_push
local found = redis.call('ZRANGEBYSCORE', push_ends, '-inf', now(), 'LIMIT', 0, limit)
for _, name in ipairs(found) do
  local address, id = string.match(name, '^(%S+) (%S+)$')
  announce_push(events, push_ends, address, id, 'expired')
end
return {'told', #found}
