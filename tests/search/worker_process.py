"""`python -m tests.search.worker_process <redis url>`: a search worker in a process of its own, to be killed."""

import asyncio
import sys

from tests.search.searching import searchable


async def main(redis_url: str) -> None:
    async with searchable(redis_url) as board, board.worker():
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
