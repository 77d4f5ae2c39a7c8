-- is_claimant(task, attempt, request) -> whether these are the number and the request id of the contract's last claim
local function is_claimant(task, attempt, request)
  local number, claim = unpack(redis.call('HMGET', task, 'attempt', 'claim'))
  return number == attempt and claim == request
end
