-- share(all, own, waiting, id, count, seconds, most, longest, at, opens) -> milliseconds to wait, since
-- Takes a place in a sliding log of `count` places per `seconds` that many parties share, or returns how long to wait.
-- A wait of 0 means that a place was taken; `since` is then when the caller began to wait (ms; 0 = it did not wait).
-- Before the time `opens` (ms) there are no places. A `count` of 0 means no limit.
-- `most` is the maximum number of places of one party. If `most` is 0, a party may have twice as many places as are
-- free: a single party gets about two thirds, each of two parties gets two fifths, and some places are always left.
-- A caller that must wait is put into `waiting`, the sorted set of its party. It should ask again when half of those
-- before it will have been served at the present rate. So each caller asks only a few times, however many wait, and
-- soon learns when others leave more places. This roughly keeps the order. A new caller gets a place only if there is
-- room for all who wait. A caller that would have to wait for more than `longest` ms is not put into `waiting`, and
-- that wait is returned. A caller that does not ask again is removed after `longest` ms.
-- include drop_ended
local function share(all, own, waiting, id, count, seconds, most, longest, at, opens)
  count, most, longest = tonumber(count), tonumber(most), tonumber(longest)
  if count == 0 then return math.max(0, opens - at), 0 end
  local window = seconds * 1000

  local used = {}
  for index, log in ipairs({all, own}) do
    local ended
    repeat -- a hundred at a time: thousands may end at once, and removing them one by one takes milliseconds
      local oldest = redis.call('LRANGE', log, -100, -1)
      ended = 0
      while ended < #oldest and math.abs(at - oldest[#oldest - ended]) >= window do -- also after the clock was set back
        ended = ended + 1
      end
      if ended > 0 then redis.call('LTRIM', log, 0, -1 - ended) end
    until ended < 100
    used[index] = redis.call('LLEN', log)
  end
  local free, mine = count - used[1], used[2]

  local room, earliest = 0, opens -- room: places that the caller's party could take now
  if opens <= at then
    room = math.min(free, most > 0 and most - mine or math.floor((2 * free - mine) / 3) + 1)
    local full = (most == 0 or free < 1) and all or own
    earliest = room > 0 and at or redis.call('LINDEX', full, -1) + window
  end

  drop_ended(waiting, at - longest)
  redis.call('ZREMRANGEBYSCORE', waiting, '(' .. at, '+inf') -- they began to wait before the clock was set back
  local since = redis.call('ZSCORE', waiting, id)
  if room > 0 and (since or room > redis.call('ZCARD', waiting)) then
    for _, log in ipairs({all, own}) do
      redis.call('LPUSH', log, at)
      redis.call('PEXPIRE', log, window)
    end
    redis.call('ZREM', waiting, id)
    return 0, tonumber(since or 0)
  end

  local before = since and redis.call('ZRANK', waiting, id) or redis.call('ZCARD', waiting)
  local queue = before * window / (most > 0 and most or math.max(1, (free + mine) * 2 / 3))
  if not since and earliest - at + queue > longest then return math.ceil(earliest - at + queue), 0 end
  if not since then
    redis.call('ZADD', waiting, at, id)
    redis.call('PEXPIRE', waiting, longest)
  end
  return math.max(1, math.floor(earliest - at + math.min(queue, longest) / 2)), 0
end
