-- tell_task(task, events, id, what, status) -> nothing
-- Tells of a change of a contract: by an event `task.<what>` with the attempt, the assignee and the callback, and by a
-- wake-up with the new status for whoever waits for the contract. The channel bears the name of its key.
-- include announce
local function tell_task(task, events, id, what, status)
  local attempt, assignee, callback = unpack(redis.call('HMGET', task, 'attempt', 'assignee_id', 'callback_url'))
  announce(events, 'task.' .. what, id, 'attempt', attempt, 'assignee_id', assignee or '', 'callback', callback or '')
  redis.call('SPUBLISH', task, status)
end
