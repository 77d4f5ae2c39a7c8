-- unlist(agent, listed, due, events, id) -> nothing
-- Removes the entry of an agent from the directory: its content is deleted, and its place is freed. Those who wait for
-- its check are woken.
-- include announce_removal
local function unlist(agent, listed, due, events, id)
  local shown = redis.call('HGET', agent, 'shown')
  redis.call('UNLINK', agent)
  redis.call('ZREM', listed, id)
  redis.call('ZREM', due, id)
  announce_removal(events, id, shown)
  redis.call('SPUBLISH', agent, 'removed')
end
