"""`python -m tests.search.worker_process <redis url>`: a search worker as a separate process, to be killed.

It makes the vectors of only one round, so that something is left to do however late it is killed.
"""

import asyncio
import sys
from collections.abc import Sequence

from node.embedding.embedder import Embedder
from tests.search.searching import searchable


async def main(redis_url: str) -> None:
    passages, is_over = Embedder.passages, False

    async def once(self: Embedder, texts: Sequence[str]) -> list[bytes]:
        nonlocal is_over
        if texts and is_over:
            await asyncio.Event().wait()
        is_over = is_over or bool(texts)
        return await passages(self, texts)

    Embedder.passages = once
    async with searchable(redis_url) as board, board.worker():
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
