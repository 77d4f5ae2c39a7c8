-- unlist(agent, listed, due, events, id) -> nothing
-- Takes the entry of an agent out of the directory: what it said is forgotten, and its place is free. Whoever waits for
-- its check need not wait any longer.
-- include tell_removed
local function unlist(agent, listed, due, events, id)
  local shown = redis.call('HGET', agent, 'shown')
  redis.call('UNLINK', agent)
  redis.call('ZREM', listed, id)
  redis.call('ZREM', due, id)
  tell_removed(events, id, shown)
  redis.call('SPUBLISH', agent, 'removed')
end
