-- share(all, own, waiting, id, count, seconds, most, longest, at, opens) -> milliseconds to wait, since
-- Takes a place in a sliding log of `count` places in `seconds` that many parties share, or says how long to wait. A
-- wait of 0 means that the place is taken; `since` is then when the caller had begun to wait (ms; 0 = it had not).
-- Before the time `opens` (ms) there is no place. A count of 0 means no limit.
-- `most` is how many places one party may have. If it is 0, a party may have twice as many as are still free: one alone
-- gets about two thirds, each of two gets two fifths, and some are always left for the next.
-- Who has to wait is put into `waiting`, the sorted set of its own party, and is to ask again when half of those before
-- it will have been served at the present rate. So each asks only a few times, however many wait, and soon learns when
-- others leave more places. That roughly keeps their order; a newcomer gets a place only if there is room for all who
-- wait. Who would have to wait for longer than `longest` ms is not put there, and that wait is returned. Who does not
-- ask again is removed after that time.
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
