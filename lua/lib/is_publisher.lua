-- is_publisher(task, proven, signer) -> whether a request comes from the publisher of a contract
-- It does if it showed the publisher_token (`proven` 1), or if the key of the offer signed it.
local function is_publisher(task, proven, signer)
  return proven == '1' or (signer ~= '' and signer == redis.call('HGET', task, 'signer'))
end
