-- show_post(thread, events, id, seq) -> nothing
-- Undoes `hide_post`: a thread gets its former status, and a reply is removed from the hidden ones.
-- include announce
local function show_post(thread, events, id, seq)
  if seq == '0' then
    local status, was = unpack(redis.call('HMGET', thread, 'status', 'was'))
    if status ~= 'hidden' then return end
    redis.call('HSET', thread, 'status', was or 'closed')
    redis.call('HDEL', thread, 'was')
    announce(events, 'thread.opened', id)
  else
    local hidden = redis.call('HGET', thread, 'hidden_replies') or ','
    local first, last = string.find(hidden, ',' .. seq .. ',', 1, true)
    if not first then return end
    redis.call('HSET', thread, 'hidden_replies', string.sub(hidden, 1, first) .. string.sub(hidden, last + 1))
    announce(events, 'reply.shown', id, 'seq', seq)
  end
  redis.call('SPUBLISH', thread, 'shown')
end
