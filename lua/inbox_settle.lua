#!lua flags=allow-oom
-- Settles a message for its owner. Idempotent for the same settlement. Allowed when memory is full: it frees memory.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] messages  inbox-letters:{p}:<address>
-- KEYS[3] ends     inbox-ends:{p}:<address>
-- KEYS[4] receipt  inbox-receipt:{p}:<address>:<id>
-- KEYS[5] push_ends  inbox-push-ends:{p}
-- KEYS[6] events   events:{p}
-- ARGV[1] proof    the epoch of the token shown; * = the key of the address has signed
-- ARGV[2] status   done, refused or input_required
-- ARGV[3] digest   of the owner's whole answer
-- ARGV[4] keep     milliseconds for which the receipt is kept
-- ARGV[5] address
-- ARGV[6] id       of the message
-- ARGV[7...] fields  of the receipt: name, value, ...
-- Returns {'settled', seq, settled_at} | {'repeated', seq, settled_at}: it was settled in the same way before
--       | {'state', status}: it was settled in another way, or has expired
--       | {'gone'} | {'token'} | {'unknown'}: also if its sender has withdrawn it
-- Slot    partition of the address
-- include now
-- include stop_holding
-- include announce_push
local epoch, opening = unpack(redis.call('HMGET', inbox, 'epoch', 'opening'))
if not epoch then return {'gone'} end
if proof ~= '*' and proof ~= epoch then return {'token'} end
local known, seq, expires, settled_at, said, opened, pushed =
  unpack(redis.call('HMGET', receipt, 'status', 'seq', 'expires_at', 'settled_at', 'digest', 'opening', 'pushed'))
if not known or known == 'withdrawn' then return {'unknown'} end
if settled_at then
  if known == status and said == digest then return {'repeated', tonumber(seq), tonumber(settled_at)} end
  return {'state', known}
end
local at = now()
if opened ~= opening or tonumber(expires) <= at then return {'state', 'expired'} end
redis.call('HSET', receipt, 'digest', digest, unpack(ARGV, 7))
stop_holding(messages, ends, receipt, at, keep, status)
if pushed then announce_push(events, push_ends, address, id, status) end
return {'settled', tonumber(seq), at}
