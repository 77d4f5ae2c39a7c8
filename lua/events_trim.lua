#!lua flags=allow-oom
-- Trims an outbox up to the oldest event that a group still needs, and deletes consumers that have no pending entries
-- and have long been idle. If the clock was set back, a delivery may be dated in the future. Such an event then counts
-- as delivered now, because no worker would take it over before its date. Allowed when memory is full: it frees memory.
-- KEYS[1] events   events:{p}
-- ARGV[1] gone     milliseconds without a command after which a consumer is deleted
-- ARGV[2...] groups  that read the outbox; nothing is trimmed until each of them has been created here
-- Returns {'trimmed', number of events} | {'waiting'} for a group | {'empty'}
-- Slot    the partition
local function fields_of(flat)
  local fields = {}
  for i = 1, #flat, 2 do fields[flat[i]] = flat[i + 1] end
  return fields
end

-- Variables, because these words are where other commands have a key, and the loader refuses a literal key.
local GROUPS, CONSUMERS, DELCONSUMER = 'GROUPS', 'CONSUMERS', 'DELCONSUMER'

if redis.call('EXISTS', events) == 0 then return {'empty'} end
local missing = {}
for i = 2, #ARGV do missing[ARGV[i]] = true end
local first_ms, first_seq
for _, flat in ipairs(redis.call('XINFO', GROUPS, events)) do
  local group = fields_of(flat)
  missing[group.name] = nil
  -- The group needs events from its oldest pending one on, or if none is pending, those after the last delivered one.
  local id, step = group['last-delivered-id'], 1
  if group.pending > 0 then
    id, step = redis.call('XPENDING', events, group.name)[2], 0
    for _, row in ipairs(redis.call('XPENDING', events, group.name, '-', '+', 1000)) do
      local entry, owner, idle = unpack(row)
      if idle == 0 then redis.call('XCLAIM', events, group.name, owner, 0, entry, 'JUSTID') end
    end
  end
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  ms, seq = tonumber(ms), tonumber(seq) + step
  if not first_ms or ms < first_ms or (ms == first_ms and seq < first_seq) then first_ms, first_seq = ms, seq end
  for _, row in ipairs(redis.call('XINFO', CONSUMERS, events, group.name)) do
    local consumer = fields_of(row)
    if consumer.pending == 0 and consumer.idle > tonumber(gone) then
      redis.call('XGROUP', DELCONSUMER, events, group.name, consumer.name)
    end
  end
end
if next(missing) or not first_ms then return {'waiting'} end
return {'trimmed', redis.call('XTRIM', events, 'MINID', '~', string.format('%.0f-%.0f', first_ms, first_seq))}
