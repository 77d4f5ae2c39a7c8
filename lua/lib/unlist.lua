-- unlist(agent, listed, due, events, id) -> nothing
-- Takes the entry of an agent out of the directory: its content is deleted, and its place is free. Whoever waits for
-- its check is woken.
-- include announce_removal
local function unlist(agent, listed, due, events, id)
  local shown = redis.call('HGET', agent, 'shown')
  redis.call('UNLINK', agent)
  redis.call('ZREM', listed, id)
  redis.call('ZREM', due, id)
  announce_removal(events, id, shown)
  redis.call('SPUBLISH', agent, 'removed')
end
