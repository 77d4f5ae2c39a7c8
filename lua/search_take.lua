#!lua
-- Takes requests whose callers still wait for an answer; each goes to one worker.
-- KEYS[1] requests  search:asks:<service>:{search}
-- ARGV[1] most      requests looked at
-- Returns {'requests', request, ...}
-- Slot    {search}
-- include now
local found, at = {'requests'}, now()
for _, waiting in ipairs(redis.call('LPOP', requests, most) or {}) do
  local space = string.find(waiting, ' ', 1, true)
  if tonumber(string.sub(waiting, 1, space)) > at then found[#found + 1] = string.sub(waiting, space + 1) end
end
return found
