#!lua flags=allow-oom
-- Ends the reindexing that `reindex_start` began: the new marks of a thread's replies replace the old ones. Allowed
-- when memory is full: it takes no memory.
-- KEYS[1] marks       search:marks:{p}:<thread>
-- KEYS[2] next_marks  search:next-marks:{p}:<thread>
-- Returns {'replaced'} | {'absent'}: another worker, which indexed the thread at the same time, has ended it
-- Slot    partition of the thread's id
if redis.call('EXISTS', next_marks) == 0 then return {'absent'} end
if redis.call('STRLEN', next_marks) > 0 then
  redis.call('RENAME', next_marks, marks)
  redis.call('PERSIST', marks)
else
  redis.call('UNLINK', next_marks, marks)
end
return {'replaced'}
