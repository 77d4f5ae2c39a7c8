#!lua
-- Puts a request to the workers, unless its answer is cached or no worker is there to give it.
-- KEYS[1] requests  search:asks:<service>:{search}
-- KEYS[2] alive     search:alive:<service>:{search}
-- KEYS[3] cached    search:query:<digest>:{search}
-- KEYS[4] current   search:live:{search}
-- ARGV[1] use_cache  1 = the answer may be the cached vector
-- ARGV[2] wait       milliseconds for which the caller waits for the answer
-- ARGV[3] most       requests that may wait
-- ARGV[4] request
-- Returns {'cached', index version, vector} | {'waiting'} | {'absent'}: no worker | {'busy'}
-- Slot    {search}
-- include now
if use_cache == '1' then
  local version = redis.call('HGET', current, 'name')
  local known = version and redis.call('GET', cached)
  if known and string.sub(known, 1, #version + 1) == version .. ' ' then
    return {'cached', version, string.sub(known, #version + 2)}
  end
end
if redis.call('EXISTS', alive) == 0 then return {'absent'} end
if redis.call('LLEN', requests) >= tonumber(most) then return {'busy'} end
redis.call('RPUSH', requests, string.format('%.0f ', now() + wait) .. request)
redis.call('PEXPIRE', requests, wait * 2)
redis.call('SPUBLISH', requests, '')
return {'waiting'}
