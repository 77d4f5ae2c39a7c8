#!lua flags=allow-oom
-- Prolongs the life of an inbox, because its owner was there. Allowed when memory is full: an owner who settles
-- messages frees memory.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] last_seq  inbox-seq:{p}:<address>
-- ARGV[1] life     milliseconds after which the inbox ends if its owner does not return
-- ARGV[2] kept     milliseconds for which the counter of its messages outlives the inbox
-- ARGV[3] step     milliseconds by which its place in the quota may outlive the inbox, so that the place need not be
--                  prolonged each time
-- ARGV[4] lasts    when that place ends (ms), if it has just been prolonged; 0 = it was not
-- Returns {'prolonged', ends_at, client, place, until}: the inbox ends with its place, unless the caller prolongs the
--         place to `until` and runs this step again; an empty place = nothing to do | {'gone'}
-- Slot    partition of the address
-- include now
-- include prolong
if redis.call('EXISTS', inbox) == 0 then return {'gone'} end
return {'prolonged', prolong(inbox, last_seq, life, kept, step, now(), lasts)}
