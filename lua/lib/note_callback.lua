-- note_callback(record, id, status, attempts, due_at, reason, about) -> nothing
-- Notes the delivery state of a callback in the record of its entity, and wakes those who wait for a change. A field of
-- the record is `<status> <attempts> <next attempt, ms> <when it happened, ms> <type> <host> <reason>`, by webhook-id.
-- The field `changes` counts the changes. `about` is the part that attempts do not change (time, type, host); without
-- it, only a callback that is already in the record is updated. The record has the last 20 callbacks, and expires a day
-- after the last of their next attempts.
-- include now
local function note_callback(record, id, status, attempts, due_at, reason, about)
  about = about or string.match(redis.call('HGET', record, id) or '', '^%S+ %S+ %S+ (%S+ %S+ %S+) ')
  if not about then return end
  redis.call('HSET', record, id, table.concat({status, attempts, due_at, about, reason}, ' '))
  redis.call('HINCRBY', record, 'changes', 1)
  if redis.call('HLEN', record) > 21 then
    local oldest, since
    local noted = redis.call('HGETALL', record)
    for i = 1, #noted, 2 do
      local at = tonumber(string.match(noted[i + 1], '^%S+ %S+ %S+ (%d+) '))
      if at and (not since or at < since) then oldest, since = noted[i], at end
    end
    redis.call('HDEL', record, oldest)
  end
  local life = math.max(0, due_at - now()) + 86400000
  if redis.call('PTTL', record) < life then redis.call('PEXPIRE', record, life) end
  redis.call('SPUBLISH', record, status)
end
