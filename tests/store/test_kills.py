"""F1, I2: an acknowledged change survives, whenever the process that made it is killed."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from interlock.store.collection import Document
from interlock.store.connect import connect
from interlock.store.documents import find

from .things import THINGS, Thing

KILLS = 8
TESTS = Path(__file__).parent.parent
CHILD = """
import asyncio, os, signal, sys
from interlock.store import Store
from store.things import THINGS, Thing

left = int(sys.argv[2])

async def count(store, key):
    global left
    while True:
        async with store.transaction() as change:
            found = await change.get(THINGS, key)
            size = 1 + (found.value.size if found else 0)
            change.put(THINGS, Thing(key, key, size))
            change.put(THINGS, Thing(key + "-twin", key, size))
        os.write(1, f"{key} {size}\\n".encode())
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

async def main():
    store = await Store.open(sys.argv[1], [THINGS])
    await asyncio.gather(*(count(store, key) for key in "abcdefgh"))

asyncio.run(main())
"""


@pytest.mark.slow
def test_acknowledged_changes_survive_and_transactions_stay_whole(where: str) -> None:
    dice = random.Random(3)
    promised: dict[str, int] = {}
    for kill in range(KILLS):
        left = dice.randint(1, 150)
        # By itself at the very line, before what was promised too early can come true; or by us, at some later moment.
        command = [sys.executable, "-c", CHILD, where, str(left if kill % 2 else 1_000_000)]
        env = {"PYTHONPATH": f"{TESTS}:{TESTS.parent / 'src'}"}
        with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            for line in child.stdout:
                key, size = line.split()
                promised[key] = max(promised.get(key, 0), int(size))
                left -= 1
                if left == 0:
                    child.kill()
        assert left <= 0
        database = connect(where)
        found: dict[str, Document[Thing]] = {document.key: document for document in find(database, THINGS, {})}
        for key, size in promised.items():
            assert found[key].value.size >= size
            assert found[key].value.size == found[f"{key}-twin"].value.size == found[key].version
            assert [document.key for document in find(database, THINGS, {"owner": key})] == [key, f"{key}-twin"]
        database.close()
