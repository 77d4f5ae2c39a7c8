#!lua
-- Removes indexed entries from the queue, except those that have changed meanwhile or whose lease has ended.
-- KEYS[1] queue     search:pending:{search} or search:backlog:{search}
-- ARGV[1] ends      end of the lease (ms)
-- ARGV[2...] names
-- Returns {'done'}
-- Slot    {search}
for index = 2, #ARGV do
  if tonumber(redis.call('ZSCORE', queue, ARGV[index])) == tonumber(ends) then
    redis.call('ZREM', queue, ARGV[index])
  end
end
return {'done'}
