#!lua
-- Charges a client and its site for work that was done for the client, however much they owe already. Debts are worked
-- off evenly, at `count` or `site_count` per `seconds`.
-- KEYS[1] work    work:{p}:<kind>:<client>, as '<owed>@<time (ms)>'
-- KEYS[2] site    work:{p}:<kind>:<site of the client>; the same as work if the client is its own site
-- ARGV[1] amount  of the work; 0 = only return how long the client has to wait
-- ARGV[2] count   debt from which on a client has to wait
-- ARGV[3] site_count  debt of its site from which on the client has to wait
-- ARGV[4] seconds  the window
-- Returns {wait_ms}: how long the client has to wait now
-- Slot    partition of the client's site
-- include now
-- include unlogged
local at, wait, window = now(), 0, seconds * 1000
local counts = {{work, tonumber(count)}}
if site ~= work then table.insert(counts, {site, tonumber(site_count)}) end
for _, place in ipairs(counts) do
  local key, most, owed = place[1], place[2], 0
  local known, since = string.match(redis.call('GET', key) or '', '^(%d+)@(%d+)$')
  if known then owed = math.max(0, known - math.floor(math.max(0, at - since) * most / window)) end
  -- If the clock was set back, `since` is in the future, and until then nothing would be worked off.
  if amount ~= '0' or (since and tonumber(since) > at) then
    owed = owed + amount
    unlogged('SET', key, string.format('%.0f@%.0f', owed, at), 'PX', math.ceil(owed * window / most))
  end
  if owed >= most then wait = math.max(wait, math.ceil((owed - most + 1) * window / most)) end
end
return {wait}
