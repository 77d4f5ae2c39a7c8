"""The search of a node that has none, for tests of what is found by other ways."""

from node.common.own_terms import NO_TERMS, OwnTerms


class NoIndex:
    """Finds nothing by its text."""

    def own_terms(self, title: str, body: str, /) -> OwnTerms:
        return NO_TERMS

    async def note(self, entity_id: str, title: str, body: str, /) -> None:
        pass
