#!lua flags=allow-oom
-- Begins to reindex a thread: from now on, the marks of its replies are gathered once more, beside those in use.
-- Allowed when memory is full: what is no longer to be found is removed after this, which frees some.
-- KEYS[1] next_marks  search:next-marks:{p}:<thread>
-- KEYS[2] docs        search:replies:{p}:<thread>
-- ARGV[1] life        milliseconds after which the new marks are gone, should `reindex_end` never come
-- Returns the numbers of the replies that have a document
-- Slot    partition of the thread's id
redis.call('SET', next_marks, '', 'PX', life)
return redis.call('SMEMBERS', docs)
