#!lua
-- Charges a client for work that was done for it, whatever it owes already. What it owes is worked off evenly, `count`
-- in each `window`.
-- KEYS[1] work    work:{p}:<kind>:<client>, as '<owed>@<at which time (ms)>'
-- ARGV[1] amount  of the work; 0 = only tell how the client stands
-- ARGV[2] count   of which a client may owe less before it has to wait
-- ARGV[3] window  milliseconds
-- Returns {left, wait_ms}: what the client may spend before it has to wait, and how long it has to wait now
-- Slot    partition of the client's site
-- include now
local at, owed = now(), 0
local known, since = string.match(redis.call('GET', work) or '', '^(%d+)@(%d+)$')
if known then owed = math.max(0, known - math.floor(math.max(0, at - since) * count / window)) end
if amount ~= '0' then
  owed = owed + amount
  local ends = math.ceil(owed * window / count)
  redis.call('SET', work, string.format('%.0f@%.0f', owed, at), 'PX', ends)
end
if owed < tonumber(count) then return {count - owed, 0} end
return {0, math.ceil((owed - count + 1) * window / count)}
