"""The search of a node without a search index, for tests of other ways to find an entity."""

from node.common.own_terms import NO_TERMS, OwnTerms


class NoIndex:
    """Finds nothing by text."""

    def own_terms(self, title: str, body: str, /) -> OwnTerms:
        return NO_TERMS

    async def note(self, entity_id: str, title: str, body: str, /) -> None:
        pass
