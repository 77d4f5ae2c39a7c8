#!lua flags=allow-oom
-- Removes the vector of a passage, in the index or aside, together with the name of the passage. Allowed when memory is
-- full: it frees memory.
-- KEYS[1] vector    search:vector:<version>:{p}:<id>:<passage>
-- KEYS[2] aside     search:aside:... of the same passage
-- KEYS[3] passages  search:passages:<version>:{p}:<id>
-- ARGV[1] name      of the passage
-- Returns {'removed'}
-- Slot    partition of the entity's id
redis.call('UNLINK', vector, aside)
redis.call('SREM', passages, name)
return {'removed'}
