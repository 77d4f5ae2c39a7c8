#!lua flags=allow-oom
-- Withdraws a message for its sender. Idempotent. In a task, a message that the owner has settled with a question can
-- be withdrawn, too, as long as the question is not answered. Allowed when memory is full: it frees memory.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] messages  inbox-letters:{p}:<address>
-- KEYS[3] ends     inbox-ends:{p}:<address>
-- KEYS[4] receipt  inbox-receipt:{p}:<address>:<id>
-- KEYS[5] push_ends  inbox-push-ends:{p}
-- KEYS[6] events   events:{p}
-- KEYS[7] first    the receipt of the first message of its task, which is kept as long; `receipt` if it has no task
-- ARGV[1] keep     milliseconds for which the receipt is kept
-- ARGV[2] address
-- ARGV[3] id       of the message
-- Returns {'withdrawn', seq, settled_at} | {'state', status}: it is settled, or has expired | {'unknown'}
-- Slot    partition of the address
-- include now
-- include stop_holding
-- include announce_push
local status, seq, expires, settled_at, opened, task, following, pushed = unpack(
  redis.call('HMGET', receipt, 'status', 'seq', 'expires_at', 'settled_at', 'opening', 'task', 'following', 'pushed')
)
if not status then return {'unknown'} end
if status == 'withdrawn' then return {status, tonumber(seq), tonumber(settled_at)} end
local at = now()
if status == 'input_required' and task and not following then
  redis.call('HSET', receipt, 'status', 'withdrawn', 'settled_at', at, 'asked_at', settled_at)
  for _, kept in ipairs({receipt, first}) do
    redis.call('PEXPIREAT', kept, math.max(at + keep, redis.call('PEXPIRETIME', kept)))
  end
  redis.call('SPUBLISH', receipt, 'withdrawn')
else
  if settled_at then return {'state', status} end
  if opened ~= redis.call('HGET', inbox, 'opening') or tonumber(expires) <= at then return {'state', 'expired'} end
  stop_holding(messages, ends, receipt, at, keep, 'withdrawn')
end
if pushed then announce_push(events, push_ends, address, id, 'withdrawn') end
return {'withdrawn', tonumber(seq), at}
