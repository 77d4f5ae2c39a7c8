#!lua
-- Takes questions that somebody still waits to have answered; each is taken by one worker.
-- KEYS[1] asks  search:asks:<service>:{search}
-- ARGV[1] most  questions looked at
-- Returns {'asks', question, ...}
-- Slot    {search}
-- include now
local found, at = {'asks'}, now()
for _, waiting in ipairs(redis.call('LPOP', asks, most) or {}) do
  local space = string.find(waiting, ' ', 1, true)
  if tonumber(string.sub(waiting, 1, space)) > at then found[#found + 1] = string.sub(waiting, space + 1) end
end
return found
