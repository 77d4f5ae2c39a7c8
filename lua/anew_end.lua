#!lua flags=allow-oom
-- Ends what `anew_start` began: the new marks of a thread's replies take the place of the old ones. Allowed without
-- memory, because it needs none.
-- KEYS[1] marks    search:marks:{p}:<thread>
-- KEYS[2] renewed  search:renewed:{p}:<thread>
-- Returns {'renewed'} | {'absent'}: another worker, which indexed it at the same time, has done so
-- Slot    partition of the thread's id
if redis.call('EXISTS', renewed) == 0 then return {'absent'} end
if redis.call('STRLEN', renewed) > 0 then
  redis.call('RENAME', renewed, marks)
  redis.call('PERSIST', marks)
else
  redis.call('UNLINK', renewed, marks)
end
return {'renewed'}
