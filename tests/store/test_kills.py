"""F1, I2: an acknowledged change survives, whenever the process that made it is killed."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

import forking
from interlock.store.collection import Document
from interlock.store.connect import connect
from interlock.store.documents import find

from .things import THINGS, Thing

KILLS = 8
HERE = Path(__file__).parent


@pytest.mark.slow
def test_acknowledged_changes_survive_and_transactions_stay_whole(where: str) -> None:
    dice = random.Random(3)
    promised: dict[str, int] = {}
    for kill in range(KILLS):
        left = dice.randint(1, 150)
        # By itself at the very line, before what was promised too early can come true; or by us, at some later moment.
        command = forking.command(str(HERE / "counting.py"), where, str(left if kill % 2 else 1_000_000))
        env = {"PYTHONPATH": f"{HERE.parent}:{HERE.parents[1] / 'src'}"}
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
