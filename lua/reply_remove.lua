#!lua flags=allow-oom
-- Removes the document of a reply together with its number. Its marks stay until the thread is reindexed. Allowed when
-- memory is full: it frees memory.
-- KEYS[1] doc   search:reply:{p}:<thread>:<seq>
-- KEYS[2] docs  search:replies:{p}:<thread>
-- ARGV[1] seq   number of the reply
-- Returns {'removed'}
-- Slot    partition of the thread's id
redis.call('UNLINK', doc)
redis.call('SREM', docs, seq)
return {'removed'}
