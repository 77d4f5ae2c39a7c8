#!lua flags=allow-oom
-- Removes the callback URL of an entity, because its receiver wants no more, unless the entity has another one by now:
-- the owner of an inbox may change it at any time. It runs when memory is full, too, and frees some.
-- KEYS[1] entity  task:{p}:<id>, thread:{p}:<id>, session:{p}:<id> or inbox:{p}:<address>
-- ARGV[1] url     of that receiver
-- Returns {'forgotten'} | {'kept'}: it has another one, or none
-- Slot    the partition of the entity
if redis.call('HGET', entity, 'callback_url') ~= url then return {'kept'} end
redis.call('HDEL', entity, 'callback_url')
return {'forgotten'}
