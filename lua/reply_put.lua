#!lua
-- Indexes a reply by its text: its terms become a document, and its marks join those of the thread's other replies. If
-- the reply has a document already, nothing changes.
-- KEYS[1] doc      search:reply:{p}:<thread>:<seq>
-- KEYS[2] docs     search:replies:{p}:<thread>
-- KEYS[3] marks    search:marks:{p}:<thread>
-- KEYS[4] next_marks  search:next-marks:{p}:<thread>, those of a thread that is being reindexed, else absent
-- ARGV[1] seq      number of the reply
-- ARGV[2] forced   1 = the reply is indexed even if it has a document already
-- ARGV[3] most     bytes of marks that are used, those of the newest replies; up to twice as many are stored
-- ARGV[4] terms
-- ARGV[5] added    marks of the reply
-- ARGV[6] passages  number of passages of the reply
-- Returns {'put', replies that have a document} | {'same', replies that have a document}
-- Slot    partition of the thread's id
local function add_to(list)
  if redis.call('APPEND', list, added) > 2 * most then
    redis.call('SET', list, redis.call('GETRANGE', list, -most, -1), 'KEEPTTL')
  end
end

if redis.call('EXISTS', doc) == 1 and forced ~= '1' then return {'same', redis.call('SCARD', docs)} end
redis.call('SADD', docs, seq)
redis.call('HSET', doc, 'terms', terms, 'passages', passages)
if added ~= '' then
  local is_reindexed = redis.call('EXISTS', next_marks) == 1
  if is_reindexed then add_to(next_marks) end
  if forced ~= '1' or not is_reindexed then add_to(marks) end
end
return {'put', redis.call('SCARD', docs)}
