-- end_attempt(task, events, id, at, outcome, reason, retryable) -> status
-- Ends the present attempt at the time `at` (ms) without a result, records it with its `reason` (JSON; empty = none)
-- among the last ten, and offers the contract again after a pause, or ends it as failed if no attempt is left. The
-- pause doubles with each attempt, up to a day. It is up to a fifth longer or shorter, derived from the digits of the
-- claim, so that readers compute the same time before the step has run (`node/tasks/lapse.py`).
-- include reoffer
-- include finish
-- include announce_task
local function end_attempt(task, events, id, at, outcome, reason, retryable)
  local attempt, assignee, claimed, claim, most, failures, pause, attempts = unpack(redis.call('HMGET', task,
    'attempt', 'assignee_id', 'claimed_at', 'claim', 'max_attempts', 'failures', 'retry_ms', 'attempts'))
  failures = (tonumber(failures or 0)) + 1
  local entry = '{"attempt":' .. attempt .. ',"assignee_id":' .. cjson.encode(assignee) .. ',"claimed_at":' .. claimed
    .. ',"ended_at":' .. string.format('%.0f', at) .. ',"outcome":"' .. outcome .. '"'
    .. (reason ~= '' and ',"reason":' .. reason or '') .. '}'
  attempts = attempts and attempts .. '\n' .. entry or entry
  local _, breaks = string.gsub(attempts, '\n', '')
  if breaks >= 10 then attempts = string.gsub(attempts, '^[^\n]*\n', '') end
  redis.call('HSET', task, 'failures', failures, 'attempts', attempts, 'more', 1)

  if not retryable or failures >= tonumber(most or 1) then
    announce_task(task, events, id, 'failed', 'failed')
    finish(task, 'failed', at)
    return 'failed'
  end
  announce_task(task, events, id, outcome == 'failed' and 'failed' or 'expired', 'offered')
  local opens
  if pause then
    local share = 0.8 + 0.4 * tonumber(string.sub(claim, 1, 4), 16) / 65535
    opens = at + math.floor(math.min(pause * 2 ^ (failures - 1), 86400000) * share)
  end
  reoffer(task, at, opens)
  return 'offered'
end
