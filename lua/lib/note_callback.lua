-- note_callback(record, id, status, attempts, due_at, reason, about) -> nothing
-- Notes in the record of an entity how far one of its callbacks is, and wakes who waits for that. A field of the record
-- is `<status> <attempts> <next attempt, ms> <when it happened, ms> <type> <host> <reason>`, by webhook-id; the field
-- `changes` counts. `about` is the part that no attempt changes (time, type, host); without it, only a callback that is
-- noted already is updated. The record holds the last 20 and ends a day after all of them.
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
