#!lua
-- Puts a message into an inbox, once for each Idempotency-Key and each request signature. Message numbers have no gaps.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] last_seq  inbox-seq:{p}:<address>
-- KEYS[3] messages  inbox-letters:{p}:<address>: a stream whose entry ids are 0-<seq>
-- KEYS[4] ends     inbox-ends:{p}:<address>: places of the messages by the time (ms) at which they expire
-- KEYS[5] receipt  inbox-receipt:{p}:<address>:<id>
-- KEYS[6] rate     rate:{p}:<kind>:<address>:<client>
-- KEYS[7] idem     idem:{p}:<scope>; any key of the slot when the request has no Idempotency-Key
-- KEYS[8] replay   replay:{p}:<signature>; any key of the slot when the request is not signed
-- KEYS[9] events   events:{p}
-- KEYS[10] push_ends  inbox-push-ends:{p}
-- KEYS[11] task    the receipt of the first message of its task; any key of the slot if it belongs to no task, as below
-- KEYS[12] context  inbox-context:{p}:<address>:<name>
-- KEYS[13] asked   the receipt of the message whose question it answers; any key of the slot if it begins its task
-- KEYS[14] pushes  inbox-push:{p}:<address>:<task>; any key of the slot if it begins its task
-- ARGV[1] count    the limit; 0 = none
-- ARGV[2] seconds  its window
-- ARGV[3] digest   of the body, under its Idempotency-Key; empty = none
-- ARGV[4] idem_ttl  milliseconds
-- ARGV[5] replay_ttl  milliseconds; 0 = not signed
-- ARGV[6] address
-- ARGV[7] id       of the message
-- ARGV[8] sender   a name of the client without a space
-- ARGV[9] signer   thumbprint of the key that signed the request; empty = not signed
-- ARGV[10] lasts   milliseconds after which the message expires, if the inbox does not limit it further
-- ARGV[11] usual   that limit in milliseconds, for an inbox that sets none
-- ARGV[12] keep    milliseconds for which a receipt outlives the message
-- ARGV[13] most    unsettled messages that an inbox holds
-- ARGV[14] most_bytes  bytes of the unsettled messages that an inbox holds
-- ARGV[15] most_each  unsettled messages that an inbox holds from one sender
-- ARGV[16] text    the message as its owner reads it
-- ARGV[17] task_id  the id of the first message of its task, which may be this one; empty = it belongs to no task
-- ARGV[18] context_id  as the sender knows it
-- ARGV[19] said    the message as its sender reads it
-- ARGV[20] most_tasks  tasks that a context lists; beyond that, the oldest are removed from it
-- Returns {'sent', allowed, remaining, reset_ms, seq, expires_at}
--       | {'replayed', …, '<id>@<seq>@<expires_at>@<sent_at>', now}
--       | {'full', …, milliseconds until there may be room} | {'limited'|'conflict'|'signature'|'policy', …}
--       | {'turn', …}: the owner has asked no question, or it is answered already | {'gone'}: not counted
-- Slot    partition of the address
-- include now
-- include take
-- include once
-- include remember
-- include make_room
-- include announce
-- include announce_push
-- include first_use
local opening, ends_at, ttl, policy, contacts, callback =
  unpack(redis.call('HMGET', inbox, 'opening', 'ends_at', 'ttl', 'policy', 'contacts', 'callback_url'))
if not opening then return {'gone'} end
local at = now()
local allowed, remaining, reset = take(rate, count, seconds, at)
if allowed == 0 then return {'limited', allowed, remaining, reset} end
local before, original = once(idem, digest)
if before then return {before, allowed, remaining, reset, original, at} end

local is_contact = signer ~= '' and string.find(' ' .. (contacts or '') .. ' ', ' ' .. signer .. ' ', 1, true)
if (policy == 'signed' and signer == '') or (policy == 'contacts' and not is_contact) then
  return {'policy', allowed, remaining, reset}
end
local earlier, pushed -- the messages of its task so far; whether push notifications follow the task
if task_id ~= '' and task_id ~= id then
  earlier, pushed = unpack(redis.call('HMGET', task, 'turns', 'pushed'))
  local status, following = unpack(redis.call('HMGET', asked, 'status', 'following'))
  if not earlier or status ~= 'input_required' or following then return {'turn', allowed, remaining, reset} end
end
local full_until = make_room(messages, ends, at, #text, sender, most, most_bytes, most_each)
if full_until then return {'full', allowed, remaining, reset, full_until - at} end
if not first_use(replay, replay_ttl, id) then return {'signature', allowed, remaining, reset} end

local seq = redis.call('INCR', last_seq)
local expires = math.min(at + math.min(ttl or usual, lasts), ends_at)
local place = table.concat({seq, id, #text, sender, 'q'}, ' ')
redis.call('XADD', messages, '0-' .. seq, 'id', id, 'at', at, 'expires_at', expires, 'text', text)
redis.call('ZADD', ends, expires, place)
local last = redis.call('ZRANGE', ends, -1, -1, 'WITHSCORES')[2]
redis.call('PEXPIREAT', messages, last)
redis.call('PEXPIREAT', ends, last)
redis.call('HSET', receipt, 'status', 'queued', 'seq', seq, 'sent_at', at, 'expires_at', expires, 'opening', opening,
  'place', place)
redis.call('PEXPIREAT', receipt, expires + keep)

if task_id ~= '' then
  redis.call('HSET', receipt, 'task', task_id, 'context', context_id, 'said', said)
  redis.call('HSET', task, 'turns', earlier and earlier .. ' ' .. id or id)
  redis.call('ZADD', context, at, task_id)
  redis.call('ZREMRANGEBYRANK', context, 0, -1 - most_tasks)
  redis.call('PEXPIREAT', task, math.max(expires + keep, redis.call('PEXPIRETIME', task)))
  -- A question withdrawn just before its receipt expires keeps its task for another `keep` (`inbox_withdraw`).
  redis.call('PEXPIREAT', context, math.max(expires + 2 * keep, redis.call('PEXPIRETIME', context)))
end
if earlier then
  redis.call('HSET', asked, 'following', id)
  redis.call('SPUBLISH', asked, 'following')
end
if pushed then
  redis.call('HSET', receipt, 'pushed', 1)
  redis.call('ZADD', push_ends, expires, address .. ' ' .. id)
  redis.call('PEXPIREAT', pushes, expires + keep)
  announce_push(events, push_ends, address, id, 'queued')
end

remember(idem, digest, idem_ttl, string.format('%s@%.0f@%.0f@%.0f', id, seq, expires, at))
announce(events, 'inbox.message', address, 'message', id, 'seq', seq, 'callback', callback or '')
redis.call('SPUBLISH', inbox, seq)
return {'sent', allowed, remaining, reset, seq, expires}
