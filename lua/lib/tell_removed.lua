-- tell_removed(events, id, shown) -> nothing
-- Tells of the removal of the entry of an agent: everybody if it was shown in the directory, else the workers alone.
-- include announce
local function tell_removed(events, id, shown)
  announce(events, shown and 'agent.removed' or 'check.changed', id)
end
