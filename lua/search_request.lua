#!lua
-- Sends a request to one of the workers, unless its answer is cached or there is no worker. Nothing is stored: a
-- request that no worker receives is lost, and its caller continues without an answer.
-- KEYS[1] workers   search:workers:<service>:{search}
-- KEYS[2] cached    search:query:<digest>:{search}
-- KEYS[3] current   search:live:{search}
-- ARGV[1] is_answer  1 = a cached vector is the answer; 0 = it is sent to the worker with the request
-- ARGV[2] turn       a number, different for each request, that decides which worker is asked first
-- ARGV[3] request
-- Returns {'cached', index version, vector} | {'sent'} | {'absent'}: no worker receives it
-- Slot    {search}
-- include now
local version = redis.call('HGET', current, 'name') or ''
local known, vector = redis.call('GET', cached), ''
if known and version ~= '' and string.sub(known, 1, #version + 1) == version .. ' ' then
  vector = string.sub(known, #version + 2)
  if is_answer == '1' then return {'cached', version, vector} end
end
local message = version .. ' ' .. #vector .. ' ' .. vector .. request
local channels = redis.call('ZRANGEBYSCORE', workers, now(), '+inf')
for step = 1, #channels do
  if redis.call('SPUBLISH', channels[(turn + step) % #channels + 1], message) > 0 then return {'sent'} end
end
return {'absent'}
