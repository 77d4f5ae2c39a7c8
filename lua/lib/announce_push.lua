-- announce_push(events, push_ends, address, id, status) -> nothing
-- Announces to the worker that the status of a message has changed, in a task that push notifications follow. A settled
-- message is removed from the list of those that will expire.
-- include announce
local function announce_push(events, push_ends, address, id, status)
  if status ~= 'queued' and status ~= 'read' then redis.call('ZREM', push_ends, address .. ' ' .. id) end
  announce(events, 'inbox.task', address, 'message', id, 'status', status)
end
