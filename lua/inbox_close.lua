#!lua flags=allow-oom
-- Closes an inbox: the messages that it holds are removed, and its tokens end. Only the counter of its messages is kept
-- for a while. Agents that were listed with its token become due for a check, which removes them. Allowed when memory
-- is full: it frees memory.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] last_seq  inbox-seq:{p}:<address>
-- KEYS[3] messages  inbox-letters:{p}:<address>
-- KEYS[4] ends     inbox-ends:{p}:<address>
-- KEYS[5] push_ends  inbox-push-ends:{p}
-- KEYS[6] replay   replay:{p}:<signature>; any key of the slot when the request is not signed
-- KEYS[7] agents   agents-of:{p}:<address>
-- KEYS[8] due      agents-due:{p}
-- KEYS[9] events   events:{p}
-- ARGV[1] proof    the epoch of the token shown; * = the key of the address has signed, or an operator asks
-- ARGV[2] replay_ttl  milliseconds; 0 = not signed
-- ARGV[3] kept     milliseconds for which the counter is kept; 0 = nobody can open this address again
-- ARGV[4] address
-- Returns {'closed', client, place, at, {id, ...}}: the client and the inbox's place in its quota (empty = none), the
--         time, and the messages that have ended
--       | {'gone'} | {'token'} | {'signature'}: that signature was used before
-- Slot    partition of the address
-- include announce
-- include now
-- include held
-- include first_use
local epoch, client, place = unpack(redis.call('HMGET', inbox, 'epoch', 'client', 'held'))
if not epoch then return {'gone'} end
if proof ~= '*' and proof ~= epoch then return {'token'} end
if not first_use(replay, replay_ttl, 'closed') then return {'signature'} end
local at, ended = now(), {}
for _, message in ipairs(held(ends, at)) do
  table.insert(ended, message.id)
  redis.call('ZADD', push_ends, 'XX', 0, address .. ' ' .. message.id) -- if pushes follow it, it expires now
end
for _, agent_id in ipairs(redis.call('ZRANGE', agents, 0, -1)) do -- their number is bounded (`agent_list`)
  redis.call('ZADD', due, 'XX', at, agent_id)
  announce(events, 'check.asked', agent_id)
end
redis.call('UNLINK', inbox, messages, ends)
if kept == '0' then redis.call('UNLINK', last_seq) else redis.call('PEXPIRE', last_seq, kept) end
redis.call('SPUBLISH', inbox, 'closed')
return {'closed', client or '', place or '', at, ended}
