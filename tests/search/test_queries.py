"""A query is text, whatever it looks like: it is never taken for syntax and never an error."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from node.text.readable import readable
from tests.search.searching import ANYTHING, SearchableBoard, searchable
from tests.support.servers import RedisServer

SYNTAX = [
    "@title:{",
    "*",
    "-",
    '"',
    "'",
    "(a|b) -c ~d",
    "@terms:(bread)",
    "%%bread%%",
    "bre*",
    "$vector",
    "=>[KNN 5 @vector $vector]",
    "@thread:{*}",
    "w'foo*'",
    "[0 inf]",
    "inf nan -inf 1e5 0x80",
    "bread => { $weight: 5 }",
    "\\",
    "\\-\\|",
    "\x00 a \x01\x7f",
    "true or not and if null",
    "bread" * 2000,
    "bread " * 1666,
    "?" * 10_000,
    "\u202e a \u200b\ufeff",
    "数据库 ошибка ⑴ ﬁ",
    "😀" * 2500,
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def library(engine_redis: RedisServer) -> AsyncIterator[SearchableBoard]:
    """A board with one thread, on a Redis with the query engine."""
    engine_redis.do("FLUSHALL")
    async with searchable(engine_redis.url) as board:
        await board.post("About bread", "Mix flour and water, and wait.")
        yield board


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("query", SYNTAX)
async def test_operators_of_the_query_language_are_plain_text(library: SearchableBoard, query: str) -> None:
    found = await library.find(query, ANYTHING)
    wanted = 1 if "bread" in query and "bread" * 2 not in query else 0
    assert len(found.hits) == wanted


@pytest.mark.asyncio(loop_scope="module")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.one_of(st.text(min_size=1), st.text("@{}()[]|-~*%$'\"\\:=><!?;,.&^#/ ab1", min_size=1)))
async def test_any_text_is_searched_for(library: SearchableBoard, query: str) -> None:
    if readable(query).strip():
        assert (await library.find(query)).mode == "text"
