-- lapse(task, events, id, at) -> status, or nil if this is no contract; when it can be claimed again, if that is later
-- Brings a contract up to date at the time `at` (ms). A change that time alone causes is recorded by the first step
-- that finds it, together with that step's own write: the end of a lease voids the claim, the end of a pause opens the
-- offer, the end of the time for a review accepts the result, and the deadline ends the contract.
-- include reoffer
-- include end_attempt
-- include finish
-- include announce_task
local function lapse(task, events, id, at)
  local kind, status, ends, opens, review, deadline, most = unpack(redis.call('HMGET', task,
    'kind', 'status', 'lease_expires_at', 'retry_at', 'review_ends_at', 'deadline', 'max_attempts'))
  if kind ~= 'contract' then return nil end
  ends, opens, review, deadline =
    ends and tonumber(ends), opens and tonumber(opens), review and tonumber(review), deadline and tonumber(deadline)

  if review and review <= at then
    finish(task, 'completed', review)
    announce_task(task, events, id, 'completed', 'completed')
    return 'completed'
  end
  local over = deadline and deadline <= at and (status == 'offered' or status == 'claimed' or status == 'in_progress')
  if ends and ends <= at and not (over and deadline <= ends) then
    if most then
      status = end_attempt(task, events, id, ends, 'lapsed', '', true)
      opens = redis.call('HGET', task, 'retry_at')
      opens = opens and tonumber(opens)
    else
      announce_task(task, events, id, 'expired', 'offered')
      reoffer(task, ends)
      status = 'offered'
    end
    redis.call('HDEL', task, 'claim')
  end
  if opens and opens <= at and not (over and deadline <= opens) then
    redis.call('HSET', task, 'updated_at', opens)
    redis.call('HDEL', task, 'retry_at')
    announce_task(task, events, id, 'offered', 'offered')
    opens = nil
  end
  if over and status ~= 'failed' then
    announce_task(task, events, id, 'expired', 'expired')
    finish(task, 'expired', deadline)
    return 'expired'
  end
  return status, opens
end
