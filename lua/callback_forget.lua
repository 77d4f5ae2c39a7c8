#!lua flags=allow-oom
-- Removes the field that names a receiver, because that receiver wants no more callbacks, unless the field now names
-- another receiver: the owner of an inbox and the client of an A2A task may change the field at any time. Allowed when
-- memory is full: it frees memory.
-- KEYS[1] entity  task:{p}:<id>, thread:{p}:<id>, session:{p}:<id> or inbox:{p}:<address>;
--                 or the push configs of a task: inbox-push:{p}:<address>:<task>
-- ARGV[1] field   callback_url, or the name of a push config
-- ARGV[2] value   of the field when that receiver was called
-- Returns {'forgotten'} | {'kept'}: it has another value, or none
-- Slot    the partition of the entity
if redis.call('HGET', entity, field) ~= value then return {'kept'} end
redis.call('HDEL', entity, field)
return {'forgotten'}
