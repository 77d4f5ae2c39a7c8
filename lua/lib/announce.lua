-- announce(events, kind, id, ...) -> nothing
-- Adds an event to the partition's outbox, in the same step as the write that it reports, and wakes the readers on the
-- channel named like the stream.
local function announce(events, kind, id, ...)
  redis.call('XADD', events, '*', 'type', kind, 'id', id, ...)
  redis.call('SPUBLISH', events, kind)
end
