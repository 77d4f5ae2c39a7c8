-- share(all, own, waiting, id, count, seconds, most, longest, at, opens) -> milliseconds to wait, since
-- Without a wait it may go on, and that is counted; `since` is when it had begun to wait (ms; 0 = it had not).
-- One place in a sliding log of `count` places in `seconds` that many share; before the time `opens` (ms) there is
-- none. `most` is how many one of them may have. If it is 0, that is twice as many as are still free: one alone gets
-- about two thirds, each of two gets two fifths, and some are always left for whoever comes next.
-- Whoever has to wait is noted in `waiting`, the sorted set of its own that wait, and asks again when half of those
-- before it have been served, if shares stay as they are: so each asks a few times, however many wait, and soon learns
-- of it when others leave more. That keeps their order roughly, and who is new goes on only if there is room for all of
-- them. Nobody is noted who would have to wait for longer than `longest` ms: that is what is returned then. Who does not
-- come again is forgotten after that time.
-- A count of 0 means no limit.
-- include drop_ended
local function share(all, own, waiting, id, count, seconds, most, longest, at, opens)
  count, most, longest = tonumber(count), tonumber(most), tonumber(longest)
  if count == 0 then return math.max(0, opens - at), 0 end
  local window = seconds * 1000

  local used = {}
  for index, log in ipairs({all, own}) do
    local ended
    repeat -- a hundred at a time: thousands may be over at once, and one after the other takes milliseconds
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

  local room, earliest = 0, opens -- room: how many it could have one after the other
  if opens <= at then
    room = math.min(free, most > 0 and most - mine or math.floor((2 * free - mine) / 3) + 1)
    local full = (most == 0 or free < 1) and all or own
    earliest = room > 0 and at or redis.call('LINDEX', full, -1) + window
  end

  drop_ended(waiting, at - longest)
  redis.call('ZREMRANGEBYSCORE', waiting, '(' .. at, '+inf') -- they wait since before the clock was set back
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
