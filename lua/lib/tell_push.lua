-- tell_push(events, push_ends, address, id, status) -> nothing
-- Tells the worker that a message of a task stands otherwise which push notifications follow. One that is settled does
-- not expire any more.
-- include announce
local function tell_push(events, push_ends, address, id, status)
  if status ~= 'queued' and status ~= 'read' then redis.call('ZREM', push_ends, address .. ' ' .. id) end
  announce(events, 'inbox.task', address, 'message', id, 'status', status)
end
