-- is_publisher(task, proven, signer) -> whether a request comes from the publisher of a contract
-- It does if it had the publisher_token (`proven` 1), or if the key that signed the offer signed the request.
local function is_publisher(task, proven, signer)
  return proven == '1' or (signer ~= '' and signer == redis.call('HGET', task, 'signer'))
end
