#!lua
-- Indexes a thread by the text of its title and body. The terms of the whole text are never replaced by those of its
-- beginning, whether the web process or the worker comes first.
-- KEYS[1] doc     doc:{p}:<id>
-- ARGV[1] whole   1 = the terms are those of the whole text, 0 = of its beginning
-- ARGV[2] forced  1 = even if the document already covers as much of the text
-- ARGV[3] terms
-- ARGV[4] marks
-- Returns {'put'} | {'same'}: the document already covers as much of the text
-- Slot    partition of the thread's id
-- include keep_terms
local has = redis.call('HGET', doc, 'whole')
if has and has >= whole and forced ~= '1' then return {'same'} end
keep_terms(doc, whole, terms, marks)
return {'put'}
