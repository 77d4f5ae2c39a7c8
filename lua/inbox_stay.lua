#!lua flags=allow-oom
-- Notes that the owner of an inbox was here, so that it stays. Allowed without memory: an owner who is here frees it.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] last_seq  inbox-seq:{p}:<address>
-- ARGV[1] life     milliseconds without its owner after which it ends
-- ARGV[2] kept     milliseconds for which the counter of its messages outlives it
-- ARGV[3] step     milliseconds by which the end of its place in the quota may be behind
-- Returns {'stays', client, place, ends_at}: that place is to last until then; empty = nothing is to be done | {'gone'}
-- Slot    partition of the address
-- include now
-- include stay
if redis.call('EXISTS', inbox) == 0 then return {'gone'} end
local ends_at = stay(inbox, last_seq, life, kept, now())
local client, place, until_now = unpack(redis.call('HMGET', inbox, 'client', 'held', 'held_until'))
if not place or ends_at - until_now < tonumber(step) then return {'stays', '', '', ends_at} end
redis.call('HSET', inbox, 'held_until', ends_at)
return {'stays', client, place, ends_at}
