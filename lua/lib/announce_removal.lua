-- announce_removal(events, id, shown) -> nothing
-- Announces the removal of the entry of an agent: to everybody if the entry was shown in the directory, else to the
-- workers alone.
-- include announce
local function announce_removal(events, id, shown)
  announce(events, shown and 'agent.removed' or 'check.changed', id)
end
