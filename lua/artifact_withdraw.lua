#!lua flags=allow-oom
-- Rejects an artifact for the operator, whatever its status. A rejected or expired one stays as it is. Allowed when
-- memory is full: its bytes are deleted.
-- KEYS[1] artifact  artifact:{p}:<id>
-- KEYS[2] due       artifacts:{p}
-- ARGV[1] artifact_id
-- ARGV[2] reason
-- Returns {'withdrawn'} | {'unchanged'}
-- Slot    partition of the id
-- include now
-- include reject_artifact
local status = redis.call('HGET', artifact, 'status')
if not status or status == 'rejected' or status == 'expired' then return {'unchanged'} end
reject_artifact(artifact, due, artifact_id, reason, now())
return {'withdrawn'}
