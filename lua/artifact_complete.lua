#!lua
-- Records a client's claim that it has uploaded an artifact, and starts the verification. If called again or too late,
-- it has only one effect: if the verification under way finds nothing, another one follows (`artifact_settle`), because
-- the bytes may have arrived after that verification looked.
-- KEYS[1] artifact  artifact:{p}:<id>
-- KEYS[2] due       artifacts:{p}
-- KEYS[3] events    events:{p}
-- ARGV[1] artifact_id
-- ARGV[2] life      milliseconds until an artifact that cannot be verified is removed
-- Returns {'verifying'|'unchanged', now, {name, value, ...}}; no fields for an unknown id
-- Slot    partition of the id
-- include now
-- include announce
local at = now()
local status, ends, upload_until = unpack(redis.call('HMGET', artifact, 'status', 'expires_at', 'upload_until'))
if status == 'verifying' and tonumber(upload_until) > at then redis.call('HSET', artifact, 'again_at', at) end
if status ~= 'registered' or tonumber(ends) <= at then return {'unchanged', at, redis.call('HGETALL', artifact)} end

redis.call('HSET', artifact, 'status', 'verifying', 'completed_at', at, 'expires_at', at + life)
redis.call('HDEL', artifact, 'reason')
redis.call('ZADD', due, at + life, artifact_id)
announce(events, 'artifact.completed', artifact_id, 'attempt', redis.call('HINCRBY', artifact, 'attempt', 1))
redis.call('SPUBLISH', artifact, 'verifying')
return {'verifying', at, redis.call('HGETALL', artifact)}
