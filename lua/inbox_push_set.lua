#!lua
-- Adds a receiver of push notifications about a task, and announces the present state of the task. A config of the same
-- name is replaced.
-- KEYS[1] inbox   inbox:{p}:<address>
-- KEYS[2] pushes  inbox-push:{p}:<address>:<task>
-- KEYS[3] task    the receipt of the first message of the task
-- KEYS[4] latest  the receipt of its last message; the same if there is only one
-- KEYS[5] push_ends  inbox-push-ends:{p}
-- KEYS[6] events  events:{p}
-- ARGV[1] address
-- ARGV[2] id      of the last message
-- ARGV[3] name    of the config
-- ARGV[4] config  JSON
-- ARGV[5] most    configs of one task
-- Returns {'set'} | {'many'}: the task has that many other configs | {'moved'}: the task has got another message
--         meanwhile, or is gone
-- Slot    partition of the address
-- include announce
-- include now
local turns = redis.call('HGET', task, 'turns')
local status, opened, settled, expires =
  unpack(redis.call('HMGET', latest, 'status', 'opening', 'settled_at', 'expires_at'))
if not turns or not expires or string.sub(turns, -#id) ~= id then return {'moved'} end
if redis.call('HEXISTS', pushes, name) == 0 and redis.call('HLEN', pushes) >= tonumber(most) then return {'many'} end
redis.call('HSET', pushes, name, config)
redis.call('PEXPIREAT', pushes, redis.call('PEXPIRETIME', latest))
redis.call('HSET', task, 'pushed', 1)
redis.call('HSET', latest, 'pushed', 1)
local is_held = not settled and opened == redis.call('HGET', inbox, 'opening') and tonumber(expires) > now()
if is_held then redis.call('ZADD', push_ends, expires, address .. ' ' .. id) end
status = (is_held or settled) and status or 'expired'
announce(events, 'inbox.task', address, 'message', id, 'status', status, 'config', name)
return {'set'}
