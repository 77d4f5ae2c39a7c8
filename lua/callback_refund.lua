#!lua flags=allow-oom
-- Refunds what was counted for a call that was not made because something else refused it. If the call had waited, it
-- waits again at its old position. Allowed when memory is full: what it adds existed a moment ago.
-- KEYS[1] all       the log of all who share the limit: rate:{p}:callback:<pool> or rate:{p}:callback-site:<site>
-- KEYS[2] own       rate:{p}:callback-of:<pool>:<site of the publisher> or rate:{p}:callback-client:<client>
-- KEYS[3] waiting   rate:{p}:callback-waiting:<pool>:<site> or rate:{p}:callback-client-waiting:<client>
-- ARGV[1] id        of the caller
-- ARGV[2] at        when the call was counted, in milliseconds
-- ARGV[3] since     when the caller began to wait, in milliseconds; 0 = it did not wait
-- ARGV[4] longest   milliseconds after which `waiting` expires
-- Returns {'refunded'}
-- Slot    partition of the pool or of the site
redis.call('LREM', all, 1, at)
redis.call('LREM', own, 1, at)
if tonumber(since) > 0 then
  redis.call('ZADD', waiting, since, id)
  redis.call('PEXPIRE', waiting, longest)
end
return {'refunded'}
