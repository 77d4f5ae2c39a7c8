-- unlogged(...) -> reply
-- Calls a command, as redis.call does, whose write goes neither into the log nor to replicas. So it is forgotten when the
-- server ends or a replica takes its place, and no reply waits until it is on disk. For counts of requests.
local function unlogged(...)
  redis.set_repl(redis.REPL_NONE)
  local reply = redis.pcall(...)
  redis.set_repl(redis.REPL_ALL) -- whatever has happened: what other callers write in the same batch is logged
  if type(reply) == 'table' and reply.err then error(reply) end
  return reply
end
