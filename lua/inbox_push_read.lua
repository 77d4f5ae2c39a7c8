#!lua flags=allow-oom
-- Reads the push notification configs of a task, and makes them expire with the receipt of its last message. If the
-- task has got another message meanwhile, their expiry is left as it is. Allowed when memory is full: it takes no
-- memory.
-- KEYS[1] pushes  inbox-push:{p}:<address>:<task>
-- KEYS[2] task    the receipt of the first message of the task
-- KEYS[3] latest  the receipt of its last message, as far as the caller knows
-- ARGV[1] id      of that message
-- Returns {name, config, ...}
-- Slot    partition of the address
local ends = redis.call('PEXPIRETIME', latest)
if ends > 0 and string.sub(redis.call('HGET', task, 'turns') or '', -#id) == id then
  redis.call('PEXPIREAT', pushes, ends)
end
return redis.call('HGETALL', pushes)
