#!lua flags=allow-oom
-- Prolongs the life of an inbox, because its owner was here. Allowed without memory, which a present owner frees.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] last_seq  inbox-seq:{p}:<address>
-- ARGV[1] life     milliseconds without its owner after which it ends
-- ARGV[2] kept     milliseconds for which the counter of its messages outlives it
-- ARGV[3] step     milliseconds by which its place in the quota may outlive it, so that it is not prolonged each time
-- Returns {'stays', client, place, until}: that place must last until then; empty = nothing to do | {'gone'}
-- Slot    partition of the address
-- include now
-- include stay
if redis.call('EXISTS', inbox) == 0 then return {'gone'} end
local _, client, place, held_until = stay(inbox, last_seq, life, kept, step, now())
return {'stays', client, place, held_until}
