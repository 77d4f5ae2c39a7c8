#!lua
-- Announces an offer to all who wait for work. Announces it only once, although the step is run twice: by the process
-- that changed the contract, and then by the worker.
-- KEYS[1] offers   offers:{offers}
-- KEYS[2] known    offers:known:{offers}
-- ARGV[1] id       of the contract
-- ARGV[2] at       when the contract was offered (ms; the attempt adds thousandths), different for each of its offers
-- ARGV[3] keep     approximate number of offers that are kept in the feed
-- ARGV[4] publisher
-- ARGV[5] skills   JSON; empty = none
-- Returns {'told'|'known'}
-- Slot    that of the feed, which is one for all partitions
if redis.call('ZADD', known, 'CH', at, id) == 0 then return {'known'} end
redis.call('ZREMRANGEBYRANK', known, 0, -keep - 1)
redis.call('XADD', offers, 'MAXLEN', '~', keep, '*', 'id', id, 'publisher_id', publisher, 'skills', skills)
redis.call('SPUBLISH', offers, id)
return {'told'}
