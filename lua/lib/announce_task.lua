-- announce_task(task, events, id, what, status, client) -> nothing
-- Announces a change of a contract: by an event `task.<what>` with the new status, the attempt, the assignee, the
-- callback and, if given, the client; and by a wake-up with the new status, on the channel named like the contract's
-- key. The contract keeps its last 16 changes for its followers, as `<number of the last change> <what>@<ms> ...`.
-- include announce
-- include now
local function announce_task(task, events, id, what, status, client)
  local attempt, assignee, callback, changes = unpack(redis.call('HMGET', task,
    'attempt', 'assignee_id', 'callback_url', 'changes'))
  local number, kept = string.match(changes or '0', '^(%d+)(.*)$')
  kept = kept .. ' ' .. what .. '@' .. now()
  local _, count = string.gsub(kept, ' ', '')
  if count > 16 then kept = string.gsub(kept, '^ [^ ]+', '') end
  redis.call('HSET', task, 'changes', number + 1 .. kept)
  announce(events, 'task.' .. what, id, 'status', status, 'attempt', attempt, 'assignee_id', assignee or '',
    'callback', callback or '', unpack(client and {'client', client} or {}))
  redis.call('SPUBLISH', task, status)
end
