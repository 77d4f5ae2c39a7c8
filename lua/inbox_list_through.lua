#!lua flags=no-writes
-- Lists the unsettled messages of an inbox up to a number, for the owner who is about to settle them.
-- KEYS[1] inbox    inbox:{p}:<address>
-- KEYS[2] ends     inbox-ends:{p}:<address>
-- ARGV[1] proof    the epoch of the token shown; * = the key of the address has signed
-- ARGV[2] through  number of the last one
-- Returns {'ids', id, ...} | {'gone'} | {'token'}
-- Slot    partition of the address
-- include now
-- include held
local epoch = redis.call('HGET', inbox, 'epoch')
if not epoch then return {'gone'} end
if proof ~= '*' and proof ~= epoch then return {'token'} end
local found = {'ids'}
for _, message in ipairs(held(ends, now())) do
  if message.seq <= tonumber(through) then table.insert(found, message.id) end
end
return found
