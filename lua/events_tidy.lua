#!lua flags=allow-oom
-- Forgets events that every group has acknowledged, and readers that hold nothing and have long been silent.
-- It frees memory, so it runs when there is none left.
-- KEYS[1] events   events:{p}
-- ARGV[1] gone     milliseconds of silence after which a reader is no more
-- ARGV[2...] groups  that read; nothing is forgotten before each of them has joined
-- Returns {'tidied', events forgotten} | {'waiting'} | {'empty'}
-- Slot    the partition
local function facts_of(flat)
  local facts = {}
  for i = 1, #flat, 2 do facts[flat[i]] = flat[i + 1] end
  return facts
end

-- Words of commands, whose key comes after them.
local GROUPS, CONSUMERS, DELCONSUMER = 'GROUPS', 'CONSUMERS', 'DELCONSUMER'

if redis.call('EXISTS', events) == 0 then return {'empty'} end
local absent = {}
for i = 2, #ARGV do absent[ARGV[i]] = true end
local first_ms, first_seq
for _, flat in ipairs(redis.call('XINFO', GROUPS, events)) do
  local group = facts_of(flat)
  absent[group.name] = nil
  -- The oldest event not acknowledged, or the first not yet delivered.
  local id, step = group['last-delivered-id'], 1
  if group.pending > 0 then id, step = redis.call('XPENDING', events, group.name)[2], 0 end
  local ms, seq = string.match(id, '^(%d+)-(%d+)$')
  ms, seq = tonumber(ms), tonumber(seq) + step
  if not first_ms or ms < first_ms or (ms == first_ms and seq < first_seq) then first_ms, first_seq = ms, seq end
  for _, row in ipairs(redis.call('XINFO', CONSUMERS, events, group.name)) do
    local reader = facts_of(row)
    if reader.pending == 0 and reader.idle > tonumber(gone) then
      redis.call('XGROUP', DELCONSUMER, events, group.name, reader.name)
    end
  end
end
if next(absent) or not first_ms then return {'waiting'} end
return {'tidied', redis.call('XTRIM', events, 'MINID', '~', string.format('%.0f-%.0f', first_ms, first_seq))}
