#!lua flags=allow-oom
-- Begins to reindex a thread: from now on, the marks of its replies are collected anew, beside those in use. Allowed
-- when memory is full: afterwards, documents that must no longer be found are removed, which frees memory.
-- KEYS[1] next_marks  search:next-marks:{p}:<thread>
-- KEYS[2] docs        search:replies:{p}:<thread>
-- ARGV[1] life        milliseconds after which the new marks expire, if `reindex_end` is never called
-- Returns the numbers of the replies that have a document
-- Slot    partition of the thread's id
redis.call('SET', next_marks, '', 'PX', life)
return redis.call('SMEMBERS', docs)
