"""A process that counts in several documents at once until it is killed, and says each count that was stored.

Arguments: where the database is, and after how many counts it kills itself.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys

from interlock.store import Store
from store.things import THINGS, Thing


async def count(store: Store, key: str) -> None:
    global left
    while True:
        async with store.transaction() as change:
            found = await change.get(THINGS, key)
            size = 1 + (found.value.size if found else 0)
            change.put(THINGS, Thing(key, key, size))
            change.put(THINGS, Thing(f"{key}-twin", key, size))
        os.write(1, f"{key} {size}\n".encode())
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def main(where: str) -> None:
    store = await Store.open(where, [THINGS])
    await asyncio.gather(*(count(store, key) for key in "abcdefgh"))


if __name__ == "__main__":
    left = int(sys.argv[2])
    asyncio.run(main(sys.argv[1]))
