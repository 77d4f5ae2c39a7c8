-- share(all, own, turns, count, window, most, at, opens) -> 0 (go on; that is counted) | milliseconds to wait
-- One place in a sliding log of `count` places in `window` ms that many share; before the time `opens` (ms) there is
-- none. `most` is how many one of them may have. If it is 0, that is twice as many as are still free: one alone gets
-- about two thirds, each of two gets two fifths, and some are always left for whoever comes next.
-- Whoever has to wait is given a turn after all others of its own that wait, at the distance that its share allows. So
-- each asks once or twice, however many wait. A count of 0 means no limit.
local function share(all, own, turns, count, window, most, at, opens)
  count, window, most = tonumber(count), tonumber(window), tonumber(most)
  if count == 0 then return math.max(0, opens - at) end

  local used = {}
  for place, log in ipairs({all, own}) do
    local ended
    repeat -- a hundred at a time: thousands may be over at once, and one after the other takes milliseconds
      local oldest = redis.call('LRANGE', log, -100, -1)
      ended = 0
      while ended < #oldest and math.abs(at - oldest[#oldest - ended]) >= window do -- also after the clock was set back
        ended = ended + 1
      end
      if ended > 0 then redis.call('LTRIM', log, 0, -1 - ended) end
    until ended < 100
    used[place] = redis.call('LLEN', log)
  end
  local free, mine = count - used[1], used[2]

  local earliest
  if opens > at then
    earliest = opens
  elseif free < 1 or (most == 0 and mine > 2 * free) then
    earliest = redis.call('LINDEX', all, -1) + window
  elseif most > 0 and mine >= most then
    earliest = redis.call('LINDEX', own, -1) + window
  else
    for _, log in ipairs({all, own}) do
      redis.call('LPUSH', log, at)
      redis.call('PEXPIRE', log, window)
    end
    return 0
  end

  local turn = math.max(earliest, tonumber(redis.call('GET', turns) or 0))
  local next_turn = turn + window / (most > 0 and most or math.max(1, (free + mine) * 2 / 3))
  redis.call('SET', turns, string.format('%.0f', next_turn), 'PX', string.format('%.0f', next_turn - at))
  return math.max(1, math.floor(turn - at))
end
