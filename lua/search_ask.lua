#!lua
-- Asks the workers something, unless the answer is known or nobody is there to give it.
-- KEYS[1] asks    search:asks:<service>:{search}
-- KEYS[2] alive   search:alive:<service>:{search}
-- KEYS[3] cached  search:query:<digest>:{search}
-- KEYS[4] live    search:live:{search}
-- ARGV[1] cache   1 = the answer may be the cached vector
-- ARGV[2] wait    milliseconds after which nobody waits for the answer
-- ARGV[3] most    questions that may wait
-- ARGV[4] ask     the question
-- Returns {'cached', generation, vector} | {'asked'} | {'absent'}: no worker | {'busy'}
-- Slot    {search}
-- include now
if cache == '1' then
  local generation = redis.call('HGET', live, 'name')
  local known = generation and redis.call('GET', cached)
  if known and string.sub(known, 1, #generation + 1) == generation .. ' ' then
    return {'cached', generation, string.sub(known, #generation + 2)}
  end
end
if redis.call('EXISTS', alive) == 0 then return {'absent'} end
if redis.call('LLEN', asks) >= tonumber(most) then return {'busy'} end
redis.call('RPUSH', asks, string.format('%.0f ', now() + wait) .. ask)
redis.call('PEXPIRE', asks, wait * 2)
redis.call('SPUBLISH', asks, '')
return {'asked'}
