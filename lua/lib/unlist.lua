-- unlist(agent, listed, due, events, id) -> nothing
-- Takes the entry of an agent out of the directory: what it said is forgotten, and its place is free. Whoever waits for
-- its check need not wait any longer.
-- include announce
local function unlist(agent, listed, due, events, id)
  redis.call('UNLINK', agent)
  redis.call('ZREM', listed, id)
  redis.call('ZREM', due, id)
  announce(events, 'agent.removed', id)
  redis.call('SPUBLISH', agent, 'removed')
end
