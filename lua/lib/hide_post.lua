-- hide_post(thread, events, id, seq) -> whether that changed anything
-- Hides a post from everybody but the operator: a thread (`seq` 0), whose status is kept for `show_post`, or one reply,
-- whose number is added to the hidden ones of its thread.
-- include announce
local function hide_post(thread, events, id, seq)
  if seq == '0' then
    local was = redis.call('HGET', thread, 'status')
    if was == 'hidden' then return false end
    redis.call('HSET', thread, 'status', 'hidden', 'was', was)
    announce(events, 'thread.hidden', id)
  else
    local hidden = redis.call('HGET', thread, 'hidden_replies') or ','
    if string.find(hidden, ',' .. seq .. ',', 1, true) then return false end
    redis.call('HSET', thread, 'hidden_replies', hidden .. seq .. ',')
    announce(events, 'reply.hidden', id, 'seq', seq)
  end
  redis.call('SPUBLISH', thread, 'hidden')
  return true
end
