#!lua
-- Leases entries that are due to be indexed to one worker. An entry that is not done when the lease ends is due again.
-- A lease that seems to last longer than `lease_ms` was given before the clock was set back: it is restarted now,
-- because its worker may be gone.
-- KEYS[1] queue     search:pending:{search} or search:backlog:{search}
-- ARGV[1] most      names to lease
-- ARGV[2] lease_ms
-- Returns {'leased', end of the lease in ms, name, ...}
-- Slot    {search}
-- include now
local at = now()
local ends = string.format('%.0f', at + lease_ms)
for _, name in ipairs(redis.call('ZRANGE', queue, '(' .. ends, '+inf', 'BYSCORE', 'LIMIT', 0, most)) do
  redis.call('ZADD', queue, ends, name)
end
local due = redis.call('ZRANGE', queue, '-inf', at, 'BYSCORE', 'LIMIT', 0, most)
for _, name in ipairs(due) do redis.call('ZADD', queue, ends, name) end
return {'leased', tonumber(ends), unpack(due)}
