-- keep_terms(doc, whole, terms, marks) -> nothing
-- Keeps the terms of an entity's own text where the search finds them. `whole` is 1 if the terms are those of the whole
-- text, 0 if they are those of its beginning; if it is empty, nothing is kept.
local function keep_terms(doc, whole, terms, marks)
  if whole ~= '' then redis.call('HSET', doc, 'whole', whole, 'terms', terms, 'marks', marks) end
end
