#!lua
-- Sends a request to one of the workers, unless its answer is cached or no worker is there to give it.
-- Nothing of it is written: a request that nobody hears is lost, and its caller goes on without an answer.
-- KEYS[1] workers   search:workers:<service>:{search}
-- KEYS[2] cached    search:query:<digest>:{search}
-- KEYS[3] current   search:live:{search}
-- ARGV[1] is_answer  1 = a cached vector is the answer; 0 = it goes to the worker, with the request
-- ARGV[2] turn       a number, another one for each request: which of the workers is asked first
-- ARGV[3] request
-- Returns {'cached', index version, vector} | {'sent'} | {'absent'}: no worker hears it
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
