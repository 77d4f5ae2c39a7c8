"""Several searchable features: each is searched separately, by one worker, whatever its posts are."""

from collections.abc import AsyncIterator, Sequence

import msgspec
import pytest

from node.embedding.model import Model
from node.search.corpus import EVERY, Corpus
from node.search.model import FoundEntity, SearchQuery
from node.search.service import Search, SearchTurns
from node.search.store import SearchStore
from node.store import ids, keys
from tests.search.searching import ANYTHING, CLIENT, SearchableBoard
from tests.support.node_under_test import until
from tests.support.servers import PATIENCE

LINGUIST = ["Translate contracts between Portuguese and English", "Transcribe interviews with speaker labels"]


class Card(msgspec.Struct):
    """A made-up agent."""

    name: str
    skills: list[str]
    status: str = "open"


class Catalogue:
    """A feature that the node does not have: agents, each of whose skills is a post."""

    def __init__(self) -> None:
        self.cards: dict[str, Card] = {}

    async def statuses(self, entity_ids: Sequence[str]) -> list[str]:
        return [self.cards[each].status if each in self.cards else "" for each in entity_ids]

    async def posts(self, places: Sequence[tuple[str, int]]) -> list[tuple[str, str, str]]:
        return [self._post(*place) for place in places]

    def _post(self, agent: str, seq: int) -> tuple[str, str, str]:
        card = self.cards.get(agent, Card("", [], ""))
        if not seq:
            return card.status, card.name, ""
        return card.status, "", card.skills[seq - 1] if seq <= len(card.skills) else ""

    async def newest_replies(self, agent: str, most: int) -> list[tuple[int, str]]:
        return list(enumerate(self.cards[agent].skills, 1))[-most:]

    async def newest_open(self, most: int | None = None) -> list[str]:
        return [agent for agent, card in self.cards.items() if card.status == "open"][:most]

    async def count_open(self) -> int:
        return len(await self.newest_open())

    async def scan_open(self) -> AsyncIterator[list[str]]:
        yield await self.newest_open()


class Agents:
    """The agents of a node, next to its board."""

    def __init__(self, board: SearchableBoard) -> None:
        self.catalogue = Catalogue()
        corpus = Corpus("catalogue", self.catalogue, ("card.",), concerned=EVERY)
        board.corpora.append(corpus)
        self._board = board
        self._search = Search(SearchStore(board.store, board.documents, corpus), SearchTurns())

    async def register(self, name: str, skills: list[str]) -> str:
        agent = ids.new_id()
        await self.change(agent, Card(name, skills))
        return agent

    async def change(self, agent: str, card: Card) -> None:
        self.catalogue.cards[agent] = card
        outbox = keys.events(ids.partition_of_id(agent))
        await self._board.store.command("XADD", outbox, "*", "type", "card.changed", "id", agent)
        await self._board.store.command("SPUBLISH", outbox, "card.changed")

    async def find(self, query: str, threshold: float = 0.7) -> list[FoundEntity]:
        query_of = SearchQuery(query, 5, threshold)
        return (await self._search.search(query_of, CLIENT, self._board.looked.append)).entities

    async def found(self, query: str, agent: str, threshold: float = 0.7, seq: int | None = None) -> FoundEntity:
        hits: list[FoundEntity] = []

        async def there() -> bool:
            hits[:] = [
                hit for hit in await self.find(query, threshold) if hit.entity_id == agent and seq in (None, hit.seq)
            ]
            return bool(hits)

        await until(there)
        return hits[0]

    async def meant(self, query: str, agent: str) -> None:
        """Return once the agent is found by meaning as well as by text."""

        async def there() -> bool:
            hits = await self.find(query)
            return any(hit.entity_id == agent and hit.mode == "both" for hit in hits)

        await until(there, PATIENCE)


@pytest.fixture
def agents(board: SearchableBoard) -> Agents:
    return Agents(board)


async def test_what_one_feature_holds_is_not_found_in_another(
    board: SearchableBoard, agents: Agents, loaded_model: Model
) -> None:
    thread = await board.post("Who translates from Portuguese?", "A contract of ten pages.")
    async with board.worker():
        agent = await agents.register("Linguist", LINGUIST)
        await agents.found("Portuguese contract", agent)
        await board.settled()
        assert {hit.entity_id for hit in await agents.find("Portuguese contract", ANYTHING)} == {agent}
        assert await board.ids("Portuguese contract", ANYTHING) == [thread]


async def test_a_hit_says_which_post_it_was_found_by(
    board: SearchableBoard, agents: Agents, loaded_model: Model
) -> None:
    async with board.worker():
        agent = await agents.register("Linguist", LINGUIST)
        by_text = await agents.found("speaker labels", agent, seq=2)
        assert by_text.snippet == LINGUIST[1]
        by_meaning = await agents.found("turning recorded conversations into writing", agent, 0.6, seq=2)
        assert (by_meaning.snippet, by_meaning.mode) == (LINGUIST[1], "meaning")


async def test_of_an_entity_that_was_replaced_only_what_it_is_now_is_found(
    board: SearchableBoard, agents: Agents
) -> None:
    async with board.worker(embedding_model="none"):
        agent = await agents.register("Linguist", LINGUIST)
        await agents.found("interviews", agent)
        await agents.change(agent, Card("Linguist", LINGUIST[:1]))
        await until_not(agents, "interviews")
        await agents.found("Portuguese", agent)
        await agents.change(agent, Card("Linguist", LINGUIST, "hidden"))
        await until_not(agents, "Portuguese")


async def until_not(agents: Agents, query: str) -> None:
    async def gone() -> bool:
        return not await agents.find(query)

    await until(gone)
