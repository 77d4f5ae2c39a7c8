-- unlogged(...) -> reply
-- Calls a command as redis.call does, but its write goes neither into the log nor to replicas. So the write is lost
-- when the server ends or a replica takes its place, and no reply waits until it is on disk. For counts of requests.
local function unlogged(...)
  redis.set_repl(redis.REPL_NONE)
  local reply = redis.pcall(...)
  redis.set_repl(redis.REPL_ALL) -- even after an error: writes of other callers in the same batch are logged
  if type(reply) == 'table' and reply.err then error(reply) end
  return reply
end
