-- keep_terms(doc, whole, terms, marks) -> nothing
-- Keeps the terms of an entity's own text where search finds them. Nothing is kept if whole is empty; else it is 1 if
-- the terms are those of the whole text, 0 if of its beginning.
local function keep_terms(doc, whole, terms, marks)
  if whole ~= '' then redis.call('HSET', doc, 'whole', whole, 'terms', terms, 'marks', marks) end
end
