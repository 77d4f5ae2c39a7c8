#!lua flags=no-writes
-- Reads an artifact together with the time, which tells whether it has expired.
-- KEYS[1] artifact  artifact:{p}:<id>
-- Returns {now, {name, value, ...}}; no fields for an unknown id
-- Slot    partition of the id
-- include now
return {now(), redis.call('HGETALL', artifact)}
